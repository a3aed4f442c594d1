"""Planted bugs, and the tests that must see them: what `bin/mutants` tries every night."""
