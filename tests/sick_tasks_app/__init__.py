"""An app whose tasks can't be imported, for tests alone."""
