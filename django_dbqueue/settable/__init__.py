"""What may be set, where, and what a value must be: the table of options, of which checks, errors and docs are made."""
