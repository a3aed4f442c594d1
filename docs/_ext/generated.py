"""What pages take from the code: settings, options of commands, SQL, files. What has no description ends the build.

``<!-- generated: settings TOP_LEVEL -->`` … ``<!-- end -->`` is kept in the page, so that GitHub shows it;
``python docs/_ext/generated.py`` rewrites it, and a build refuses what is out of date. ``<!-- on the site: … -->``
stands for text that only the site has.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import django
from django.conf import settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from sphinx.application import Sphinx

DOCS: Final = Path(__file__).resolve().parent.parent
KEPT: Final = re.compile(r"(<!-- generated: ([\w ./-]+) -->\n)(.*?)(?=\n<!-- end -->)", re.DOTALL)
ON_THE_SITE: Final = re.compile(r"^<!-- on the site: ([\w ]+) -->$", re.MULTILINE)


class NotDescribed(Exception):
    """Something that users see has no description; the text says what, and where to write it."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to Sphinx."""
    _begin()
    app.connect("source-read", _read_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write() -> None:
    """Rewrite what pages keep."""
    _begin()
    for page in sorted(DOCS.rglob("*.md")):
        before = page.read_text()
        after = rewritten(before)
        if after != before:
            page.write_text(after)
            print(f"rewrote {page.relative_to(DOCS)}")


def rewritten(text: str) -> str:
    """Return a page's text with what it keeps as the code says it now."""
    return KEPT.sub(lambda block: block[1] + _text_of(block[2]), text)


def _read_page(_app: Sphinx, page: str, source: list[str]) -> None:
    from sphinx.errors import ExtensionError

    try:
        if rewritten(source[0]) != source[0]:
            raise ExtensionError(f"docs/{page}.md is not what the code says: run bin/docs --write")
        source[0] = ON_THE_SITE.sub(lambda block: _text_of(block[1]), source[0])
    except NotDescribed as error:
        raise ExtensionError(f"docs/{page}.md: {error}") from error


def _text_of(what: str) -> str:
    from command_options import options_of_all
    from settings_tables import options_of, places, table_of
    from shown_files import block_of
    from statement_lists import statements_of

    subjects: dict[str, Callable[..., str]] = {
        "file": block_of,
        "settings": table_of,
        "options": options_of,
        "places": places,
        "commands": options_of_all,
        "statements": statements_of,
    }
    subject, *arguments = what.split()
    if subject not in subjects:
        raise NotDescribed(f"there is nothing called {subject!r} to generate: {', '.join(subjects)}")
    return subjects[subject](*arguments)


def _begin() -> None:
    if not settings.configured:
        settings.configure(
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
            INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django_dbqueue"],
            USE_TZ=True,
        )
        django.setup()


if __name__ == "__main__":
    sys.modules["generated"] = sys.modules["__main__"]
    write()
