"""What may happen to a message, and which party may do it."""
