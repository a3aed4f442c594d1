"""The durable steps of a handler, its sleeps, and its waits for events."""
