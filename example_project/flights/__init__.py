"""Departures of the three New York airports in 2013: each one is a message, counted exactly once.

Those of an airport are a flow, with a count after them, and a report after that.
"""
