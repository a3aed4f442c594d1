"""Departures of the three New York airports in 2013: each one is a message, counted exactly once."""
