"""One file for each peer. It is imported only by `child.py`, under the interpreter that has the peer's packages."""
