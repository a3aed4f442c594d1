"""Reads pages as GitHub shows them: anchors in HTML are targets, links to files outside docs/ lead to their pages."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sphinx.errors import ExtensionError

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS: Final = Path(__file__).resolve().parent.parent
ROOT: Final = DOCS.parent
INCLUDED: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "UPGRADING.md": "project/upgrading.md",
    "benchmarks/README.md": "project/benchmarking.md",
    "LICENSE": "project/licence.md",
}
"""Files outside docs/ that a page of the site includes; README's is the landing page."""
ANCHOR: Final = re.compile(r'^<a id="([\w-]+)"></a>$', re.MULTILINE)
LINK: Final = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("source-read", _read_page)
    app.connect("include-read", _read_included)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _read_page(_app: Sphinx, page: str, source: list[str]) -> None:
    path = DOCS / f"{page}.md"
    source[0] = _on_the_site(source[0], of=path, on=path)


def _read_included(app: Sphinx, included: Path, _stem: str, source: list[str]) -> None:
    source[0] = _on_the_site(source[0], of=(DOCS / included).resolve(), on=DOCS / f"{app.env.docname}.md")


def _on_the_site(text: str, *, of: Path, on: Path) -> str:
    """Return the text of one file as it must stand on a page, which may be another file."""
    text = ANCHOR.sub(r"(\1)=", text)
    return LINK.sub(lambda link: _page_of(link[1], of=of, on=on), text)


def _page_of(link: str, *, of: Path, on: Path) -> str:
    there = (of.parent / link).resolve()
    if not there.is_relative_to(ROOT) or not there.exists():
        return link
    if there.is_dir():
        there /= "index.md"
    elif not there.is_relative_to(DOCS):
        named = str(there.relative_to(ROOT))
        if named not in INCLUDED:
            raise ExtensionError(f"{of}: the site has no page for {named!r}: link to a page, or add one to INCLUDED")
        there = DOCS / INCLUDED[named]
    return os.path.relpath(there, on.parent)
