"""What only reads or counts: why a message is stuck, who holds it, how deep queues are, what ended and when."""
