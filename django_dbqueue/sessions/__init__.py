"""Django's connections as sessions of the queue: statements, transactions, retries, snapshots."""
