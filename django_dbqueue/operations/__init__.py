"""What an operator does to messages, one by one or in bulk.

``verbs`` is the table of what may be done, ``mover`` locks what was seen, and ``ways`` moves it; the SQL of a move is
in ``statements/moves_sql``.
"""
