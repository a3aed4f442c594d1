"""An app that lets the worker's heartbeat fail as the test says, for tests alone."""
