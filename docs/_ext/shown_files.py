"""Files to copy: each is in ``docs/deploy``, where the tests run it, and a page shows it as it is there."""

from __future__ import annotations

from typing import Final

from generated import DOCS, NotDescribed

LANGUAGES: Final = {"": "dockerfile", ".conf": "ini", ".service": "ini", ".yaml": "yaml"}
"""How the code on a page is coloured, by the suffix of the file's name."""


def block_of(name: str) -> str:
    """Return a file of ``docs/`` as a block of code."""
    path = DOCS / name
    if not path.is_file():
        raise NotDescribed(f"there is no file docs/{name} to show")
    return f"```{LANGUAGES[path.suffix]}\n{path.read_text().rstrip()}\n```"
