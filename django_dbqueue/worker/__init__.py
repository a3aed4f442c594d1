"""The process that runs consumers: a supervisor, its children, and the threads in each.

``supervisor`` starts and replaces children; ``child_loop`` is what a child does in a turn.
"""
