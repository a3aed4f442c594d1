"""System checks (placeholder until written)."""


def register() -> None: ...
