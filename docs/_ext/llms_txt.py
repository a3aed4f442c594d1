"""Writes ``llms.txt`` into the root of the site: all of its pages, as https://llmstxt.org wants them listed.

It is what the toctrees say, so a page that is added there is in it. Each part of the site is a section; pages that one
can do without to use the package are under *Optional*, which that format lets readers skip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from docutils import nodes
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.errors import ExtensionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

NAME: Final = "llms.txt"
FIRST: Final = "how-to/coding-agents"
"""The page that a coding agent is to read, whatever else it reads."""
OPTIONAL: Final = ("decisions/", "project/", "systems/")
"""Where those pages are that tell how it is built, not how it is used."""
PAGED: Final = ("html", "dirhtml")
"""Builders that make a file of each page; others make one of all, or a book."""
_SENTENCE: Final = re.compile(r".+?(?:[.!?](?=\s|$)|。)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """One line of the list."""

    name: str
    """As Sphinx names it: its path without the suffix."""
    title: str
    says: str
    """The first sentence of its text."""

    def line(self, address: str) -> str:
        notes = f": {self.says}" if self.says else ""
        return f"- [{self.title}]({address}){notes}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def text_of(root: Page, sections: Sequence[tuple[str, Sequence[Page]]], address_of: dict[str, str]) -> str:
    """Return the file: a title, what the project is, and a section for each part with its pages."""
    lines = [f"# {root.title}", "", f"> {root.says}"]
    for title, pages in sections:
        lines += ["", f"## {title}", ""]
        lines += [page.line(address_of[page.name]) for page in pages]
    return "\n".join(lines) + "\n"


def _write(app: Sphinx, error: Exception | None) -> None:
    builder = app.builder
    if error is not None or not isinstance(builder, StandaloneHTMLBuilder) or builder.name not in PAGED:
        return
    env = app.env
    root = str(app.config.root_doc)
    sections = list(_sections(env, root))
    address_of = {page.name: builder.get_target_uri(page.name) for _, pages in sections for page in pages}
    missing = [address for name, address in address_of.items() if not Path(builder.get_outfilename(name)).is_file()]
    if missing:
        raise ExtensionError(f"{NAME} would lead to pages that are not in the site: {', '.join(missing)}")
    (Path(app.outdir) / NAME).write_text(text_of(_page(env, root), sections, address_of), encoding="utf-8")


def _sections(env: BuildEnvironment, root: str) -> Iterator[tuple[str, list[Page]]]:
    seen = {root}
    optional: list[Page] = []
    if FIRST in env.all_docs:
        seen.add(FIRST)
        yield "Start here", [_page(env, FIRST)]
    for part in env.toctree_includes.get(root, []):
        pages = [_page(env, name) for name in _below(env, part, seen)]
        optional += [page for page in pages if page.name.startswith(OPTIONAL)]
        kept = [page for page in pages if not page.name.startswith(OPTIONAL)]
        if kept:
            yield env.titles[part].astext(), kept
    if optional:
        yield "Optional", optional


def _below(env: BuildEnvironment, name: str, seen: set[str]) -> Iterator[str]:
    """Yield a page and those in its toctrees, each once, in their order."""
    if name in seen:
        return
    seen.add(name)
    yield name
    for each in env.toctree_includes.get(name, []):
        yield from _below(env, each, seen)


def _page(env: BuildEnvironment, name: str) -> Page:
    return Page(name, _plain(env.titles[name]), _first_sentence(env.get_doctree(name)))


def _first_sentence(page: nodes.document) -> str:
    """Return the first sentence of a page that is not in a list, a table or a note; nothing if it has none.

    What ends with a colon is none: it belongs to the code below.
    """
    for paragraph in page.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section | nodes.document):
            found = _SENTENCE.match(_plain(paragraph))
            if found:
                return found[0]
    return ""


def _plain(node: Any) -> str:
    return " ".join(node.astext().split()).replace("[", "(").replace("]", ")")
