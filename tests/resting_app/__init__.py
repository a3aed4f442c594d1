"""An app whose worker's children rest after a second without work, for tests alone."""
