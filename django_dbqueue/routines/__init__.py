"""Stored routines, by which programs in other languages enqueue, claim and settle."""
