"""Other task queues at the same work: each in a virtual environment and in processes of its own."""
