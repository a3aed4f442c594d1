"""A bank: accounts, transfers between them as messages, and deaths at every statement of a transfer."""
