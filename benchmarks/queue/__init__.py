"""What the queue does in a second and what it costs, beside the same work by hand and the queues of others."""
