"""What pages of the documentation take from the code, and what of it ends the build of the site."""

from __future__ import annotations

import importlib
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sphinx.errors import ExtensionError

from django_dbqueue import conf
from django_dbqueue.claims import claims_sql
from django_dbqueue.databases.statement import Statement
from django_dbqueue.management.commands.run_queue_worker import Command

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import one of the modules of docs/_ext."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    return importlib.import_module


def test_a_setting_without_a_description_ends_the_build(
    extension: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = extension("settings_tables")
    assert "| `lease` | 60 | how long a claim lasts" in tables.table_of("PER_QUEUE")
    monkeypatch.setattr(conf, "PER_QUEUE", conf.PER_QUEUE | {"colour": "red"})
    with pytest.raises(extension("generated").NotDescribed, match=r"PER_QUEUE\['colour'\] has no description"):
        tables.table_of("PER_QUEUE")


def test_an_option_without_help_ends_the_build(
    extension: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = extension("command_options")
    assert "## run_queue_worker" in options.options_of_all()

    def with_an_odd_one(command: Command, parser: ArgumentParser) -> None:
        parser.add_argument("--odd")

    monkeypatch.setattr(Command, "add_arguments", with_an_odd_one)
    with pytest.raises(extension("generated").NotDescribed, match=r"run_queue_worker: \['--odd'\] has no help"):
        options.options_of_all()


def test_a_statement_without_a_docstring_ends_the_build(
    extension: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = extension("statement_lists")
    assert "### claims_sql.claim" in lists.statements_of()

    def odd() -> Statement:
        return Statement("SELECT 1", ())

    odd.__module__ = claims_sql.__name__
    monkeypatch.setattr(claims_sql, "odd", odd, raising=False)
    with pytest.raises(extension("generated").NotDescribed, match=r"claims_sql\.odd has no docstring"):
        lists.statements_of()


def test_a_file_that_is_not_there_ends_the_build(extension: Callable[[str], Any]) -> None:
    files = extension("shown_files")
    assert files.block_of("deploy/Dockerfile").startswith("```dockerfile\n# One image")
    with pytest.raises(extension("generated").NotDescribed, match=r"there is no file docs/deploy/none\.yaml to show"):
        files.block_of("deploy/none.yaml")


def test_what_pages_keep_is_what_the_code_has(extension: Callable[[str], Any]) -> None:
    generated = extension("generated")
    kept = [page for page in (ROOT / "docs").rglob("*.md") if generated.KEPT.search(page.read_text())]
    assert kept
    assert [page for page in kept if generated.rewritten(page.read_text()) != page.read_text()] == [], (
        "bin/docs --write"
    )


def test_a_page_that_is_out_of_date_is_refused(extension: Callable[[str], Any]) -> None:
    stale = ["<!-- generated: settings PER_QUEUE -->\n| option |\n<!-- end -->"]
    with pytest.raises(ExtensionError, match=r"docs/settings.md is not what the code says: run bin/docs --write"):
        extension("generated")._read_page(None, "settings", stale)


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[c](../CHANGELOG.md#added)", "[c](project/changelog.md#added)"),
        ("[d](decisions/)", "[d](decisions/index.md)"),
        ("[s](settings.md#on_ack)", "[s](settings.md#on_ack)"),
        ('<a id="p1"></a>', "(p1)="),
    ],
)
def test_links_that_github_follows_lead_to_pages_of_the_site(
    link: str, shown: str, extension: Callable[[str], Any]
) -> None:
    page = ROOT / "docs" / "promises.md"
    assert extension("github_markdown")._on_the_site(link, of=page, on=page) == shown


def test_a_link_to_a_file_that_the_site_does_not_have_ends_the_build(extension: Callable[[str], Any]) -> None:
    page = ROOT / "docs" / "promises.md"
    with pytest.raises(ExtensionError, match=r"the site has no page for 'pyproject\.toml'"):
        extension("github_markdown")._on_the_site("[p](../pyproject.toml)", of=page, on=page)
