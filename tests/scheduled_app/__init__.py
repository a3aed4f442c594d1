"""An app whose consumer is called by the clock, for tests alone."""
