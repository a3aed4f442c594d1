"""One verb per module: what may happen to a message, and which party may do it."""
