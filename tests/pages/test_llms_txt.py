"""``llms.txt``: what the toctrees say, in the form of https://llmstxt.org, and each of its links is a page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import patience

pytestmark = pytest.mark.once
DOCS = Path(__file__).resolve().parents[2] / "docs"
LINE = re.compile(r"- \[([^]]+)\]\(([^)]+)\)(: .+)?")
CONF = f"""
import sys
sys.path.insert(0, {str(DOCS / "_ext")!r})
extensions = ["myst_parser", "llms_txt"]
project = "shop"
"""
PAGES = {
    "index": "# The shop\n\nIt sells [things](use/index.md). It has doors.\n"
    "\n```{toctree}\nuse/index\nproject/index\n```\n",
    "use/index": "# Use it\n\n```{toctree}\nbuy\n../how-to/coding-agents\n```\n",
    "use/buy": "# Buy a [thing]\n\n* not this\n\nIn `a.py`:\n\nWhat it costs: money. And time.\n",
    "how-to/coding-agents": "# For agents\n\nRead this\nfirst.\n",
    "project/index": "# The project\n\nWho made it.\n",
}


def built(directory: Path, pages: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    source = directory / "docs"
    for name, text in pages.items():
        path = source / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (source / "conf.py").write_text(CONF)
    command = [sys.executable, "-m", "sphinx", "--quiet", *options, str(source), str(directory / "site")]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience(60))


def test_it_is_written_from_the_toctrees(tmp_path: Path) -> None:
    done = built(tmp_path, PAGES)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "site" / "llms.txt").read_text() == (
        "# The shop\n\n> It sells things.\n"
        "\n## Start here\n\n- [For agents](how-to/coding-agents.html): Read this first.\n"
        "\n## Use it\n\n- [Use it](use/index.html)\n- [Buy a (thing)](use/buy.html): What it costs: money.\n"
        "\n## Optional\n\n- [The project](project/index.html): Who made it.\n"
    )


def test_a_page_that_is_added_is_in_it(tmp_path: Path) -> None:
    more = PAGES | {
        "use/index": PAGES["use/index"].replace("buy\n", "buy\nsell\n"),
        "use/sell": "# Sell\n\nAt a price.\n",
    }
    assert built(tmp_path, more).returncode == 0
    assert "- [Sell](use/sell.html): At a price.\n" in (tmp_path / "site" / "llms.txt").read_text()


def test_it_leads_to_the_directories_of_a_site_that_has_them(tmp_path: Path) -> None:
    done = built(tmp_path, PAGES, "-b", "dirhtml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "- [Buy a (thing)](use/buy/): What it costs: money.\n" in (tmp_path / "site" / "llms.txt").read_text()


@pytest.mark.parametrize("builder", ["singlehtml", "epub", "text"])
def test_what_has_no_pages_of_its_own_is_built_without_it(tmp_path: Path, builder: str) -> None:
    done = built(tmp_path, PAGES, "-b", builder)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "site" / "llms.txt").exists()


def test_each_link_is_a_page(tmp_path: Path) -> None:
    assert built(tmp_path, PAGES).returncode == 0
    lines = [line for line in (tmp_path / "site" / "llms.txt").read_text().splitlines() if line.startswith("-")]
    links = [LINE.fullmatch(line) for line in lines]
    assert [line for line, link in zip(lines, links, strict=True) if link is None] == []
    addresses = [link[2] for link in links if link is not None]
    assert len(addresses) == len(set(addresses)) == len(PAGES) - 1
    assert [each for each in addresses if not (tmp_path / "site" / each).is_file()] == []
