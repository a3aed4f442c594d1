"""An app whose consumers can not be imported."""
