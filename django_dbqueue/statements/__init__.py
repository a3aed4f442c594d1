"""SQL that several rooms send: ``enqueue_sql`` writes messages, ``moves_sql`` moves them; no Django.

What one room sends is in that room: ``claims/claims_sql``, ``lifecycle/archive_sql``.
"""
