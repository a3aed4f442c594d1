"""The process that runs consumers: a supervisor, its children, and the threads in each."""
