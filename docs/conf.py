"""How Sphinx builds the documentation as a site: `bin/docs`."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

project = "django_dbqueue"
author = "django_dbqueue contributors"
project_copyright = author
release = version_of("django-dbqueue")
version = release

extensions = ["myst_parser", "generated", "github_markdown", "llms_txt"]
exclude_patterns = ["_ext", "_static"]
nitpicky = True
smartquotes = False  # it would make dashes of options
suppress_warnings = ["misc.highlighting_failure"]  # statements on our pages leave parts out: "…"

myst_enable_extensions = ["attrs_block", "colon_fence"]
myst_heading_anchors = 4

html_theme = "furo"
language = "en"
html_title = "django_dbqueue"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False


def setup(app: Sphinx) -> None:
    """Let a page say in which language it is: ``lang`` in its front matter."""
    app.connect("html-page-context", _set_language)


def _set_language(app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    context["language"] = app.env.metadata.get(page, {}).get("lang", context["language"])
