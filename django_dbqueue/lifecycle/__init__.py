"""What may happen to a message, and which party may do it.

``moves`` has what the holder of one message may do (``settle``: of many), ``rescue`` what follows an expired lease.
The claim is in ``claims/``, the search for dead workers in ``liveness/``, an operator's verbs in ``operations/``.
"""
