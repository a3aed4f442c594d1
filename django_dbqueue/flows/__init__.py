"""Flows: the rows of messages with edges between them, and their progress."""
