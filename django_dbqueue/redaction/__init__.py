"""What may be shown of payloads, keys and errors, and in which words our own texts are stored."""
