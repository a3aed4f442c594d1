"""How far a flow or a message is, for people without a login: a signed link, its JSON, and a bar for pages."""
