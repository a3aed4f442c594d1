"""What only reads or counts: why a message is stuck, who holds it, how many wait, what ended and when."""
