"""What the queue and its pipeline do in a second, beside what others do in the same minutes on the same server."""
