"""A rack for a team's own database: faults against real senders and workers, and a count of what was lost.

``manage.py queue_torture`` is its face. It works on three scratch queues, whose handlers' effects are messages too, so
it needs no table and no right beyond those of the queue.
"""
