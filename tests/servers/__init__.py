"""Private database servers for the tests: each in a directory of its own, gone when its block ends."""
