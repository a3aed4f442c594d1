"""The pictures of the console in ``docs/images``: the text of the page that each shows.

``bin/pictures`` takes them. Beside each, in ``tests/admin/picture_texts``, is the text of its page without what differs
from run to run, and the picture's hash. So the test that opens a page can say that it has changed since, without
comparing pixels, and a picture that was replaced by hand is found without a browser.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
IMAGES: Final = ROOT / "docs" / "images"
TEXTS_OF: Final = Path(__file__).resolve().parent / "picture_texts"
AGAIN: Final = "Take it again, look at it, and commit it with its text: bin/pictures"

TEXTS: Final = """
const page = document.getElementById("content");
const walker = document.createTreeWalker(page, NodeFilter.SHOW_TEXT);
const texts = [];
while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.replace(/\\s+/g, " ").trim();
    if (text && parent.checkVisibility() && !parent.closest("svg, script, style")) { texts.push(text); }
}
return texts;
"""
"""The texts of a page that can be seen. A chart's marks follow the clock, and so they are left out."""

_MONTHS = "Jan|Feb|March|April|May|June|July|Aug|Sept|Oct|Nov|Dec"
_CHANGING: Final = (
    (rf"(?:{_MONTHS})\w*\.? \d+, \d{{4}}(?:, (?:[\d:]+ [ap]\.m\.|noon|midnight))?", "MOMENT"),
    (r"\d+:\d+(?::\d+)?(?: [AP]M)?", "CLOCK"),
    (r"\b\d(?:[\d,.]*\d)?(?: (?:ms|s|min|h|d)\b)(?: \d+ (?:ms|s|min|h|d)\b)*", "TIME"),
    (r"\d(?:[\d,.]*\d)?", "0"),
)
"""What differs from run to run, and what takes its place."""


def steady(texts: list[str]) -> str:
    """The texts, a line each, without what differs from run to run."""
    lines = []
    for text in texts:
        for pattern, instead in _CHANGING:
            text = re.sub(pattern, instead, text)
        lines.append(text)
    return "\n".join(lines) + "\n"


def are_wanted() -> bool:
    """Whether this run takes the pictures, and does not compare."""
    return "DBQUEUE_TEST_PICTURES" in os.environ


def keep(name: str, picture: bytes, text: str) -> None:
    """Write a picture, and the text of its page."""
    TEXTS_OF.mkdir(exist_ok=True)
    (IMAGES / f"{name}.png").write_bytes(picture)
    (TEXTS_OF / f"{name}.txt").write_text(f"{_hash(picture)}\n{text}")


def text_of(name: str) -> str:
    """The text of its page when it was taken."""
    file = TEXTS_OF / f"{name}.txt"
    return file.read_text().partition("\n")[2] if file.exists() else ""


def difference(name: str, text: str) -> str:
    """Say what has changed since a picture was taken."""
    lines = difflib.unified_diff(text_of(name).splitlines(), text.splitlines(), "then", "now", n=1, lineterm="")
    return "\n".join([f"The page of docs/images/{name}.png has changed. {AGAIN}", *lines])


def is_of_its_text(name: str) -> bool:
    """Whether the picture is the one that was taken with the text beside it."""
    picture, text = IMAGES / f"{name}.png", TEXTS_OF / f"{name}.txt"
    return text.exists() and text.read_text().partition("\n")[0] == _hash(picture.read_bytes())


def _hash(picture: bytes) -> str:
    return hashlib.sha256(picture).hexdigest()
