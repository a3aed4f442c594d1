"""The documentation builds as a site without a warning, and every link on it leads somewhere."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]


class _Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.anchors.update(values[name] for name in ("id", "name") if name in values and tag != "meta")
        self.links.extend(values[name] for name in ("href", "src") if name in values)


def build(source: Path, into: Path) -> subprocess.CompletedProcess[str]:
    arguments = ("--builder", "html", "--fail-on-warning", "--keep-going", "--nitpicky", "--quiet")
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *arguments, source, into], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("site")
    done = build(ROOT / "docs", into)
    assert done.returncode == 0, done.stdout + done.stderr
    return into


def test_every_page_is_on_the_site(site: Path) -> None:
    sources = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}
    assert [page for page in sorted(sources) if not (site / page).with_suffix(".html").exists()] == []


def test_every_link_on_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: _Page(path) for path in site.rglob("*.html")}
    broken, followed = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if there.is_dir():
                there /= "index.html"
            found = there.exists() and (not parts.fragment or _is_on(pages, there, unquote(parts.fragment)))
            followed += 1
            if not found:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert followed > 1000
    assert broken == []


def _is_on(pages: dict[Path, _Page], there: Path, anchor: str) -> bool:
    return there not in pages or anchor in pages[there].anchors


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    """Fonts, scripts and pictures are its own: readers behind a firewall see what everybody sees."""
    for page in site.rglob("*.html"):
        assert 'src="http' not in page.read_text(), page
    for style in site.rglob("*.css"):
        assert "url(http" not in style.read_text(), style
