"""Which errors are of one kind, and the rows of the kinds; no Django: streams ask it too."""
