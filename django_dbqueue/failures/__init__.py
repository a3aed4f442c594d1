"""Which errors are of one kind, and the rows of the kinds; no Django: streams ask it too.

A message dies elsewhere: ``statements/moves_sql`` has what a nack, a reject, a rescue and a burial make of it, and
``states/spent`` when its reads are spent; ``statements/events_sql`` has what is recorded of it.
"""
