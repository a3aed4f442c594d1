"""Taking over what waits in other queues."""
