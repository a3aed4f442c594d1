"""SQL that several rooms send, and its moves and fences; no Django."""
