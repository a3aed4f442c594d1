"""The claim, without Django: its loop, statements, rows, followers, and the burial of what has no reads left."""
