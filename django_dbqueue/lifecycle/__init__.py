"""What may happen to a message, and which party may do it.

``moves`` has what the holder of one message may do, ``settle_many`` of many (``worker/settler`` calls it), and
``rescue`` what follows an expired lease. How a message dies: ``statements/moves_sql``, and ``states/spent``.
The claim is in ``claims/``, the search for dead workers in ``liveness/``, an operator's verbs in ``operations/``.
"""
