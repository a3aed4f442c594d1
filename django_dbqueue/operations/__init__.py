"""What an operator does to messages, one by one or in bulk."""
