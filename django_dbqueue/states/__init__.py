"""The states of a message: the ranges of the claim index that have them, and how many messages are in each."""
