"""One verb per file: what may happen to a message, and who may do it."""
