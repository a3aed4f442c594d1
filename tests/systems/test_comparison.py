"""The comparison page quotes what is, and leaves no weakness out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from django_dbqueue.claims import claims_sql
from django_dbqueue.databases import Claim
from django_dbqueue.databases.mysql import MYSQL
from django_dbqueue.statements import moves_sql
from django_dbqueue.statuses import NEW

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "comparison.md").read_text()


@pytest.mark.parametrize("file", sorted(Path(__file__).parent.glob("test_weaknesses_*.py")), ids=lambda file: file.stem)
def test_every_weakness_that_is_shown_is_named(file: Path) -> None:
    names = re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE)
    assert names
    assert [name for name in names if f"tests/systems/{file.name}::{name}`" not in PAGE] == []


def test_of_each_weakness_a_test_shows_that_ours_has_it_not() -> None:
    rows = [re.findall(r"`tests/[\w/]+\.py::(\w+)`", row) for row in PAGE.splitlines() if "::test_article_" in row]
    assert len(rows) >= 39
    assert [row for row in rows if all(name.startswith("test_article_") for name in row)] == []


def test_our_statements_are_quoted_as_they_are_built() -> None:
    server = MYSQL
    take = claims_sql.take(server, token=1, worker_id=None, session=None, lease=60, max_reads=5, now=None)
    built = [
        claims_sql.due(server, ("id",), "q", NEW, 0, 1).sql,
        claims_sql.take_ids(server, [1, 2], take).sql,
        moves_sql.move(server, moves_sql.ack(server), moves_sql.held(server, [Claim(1, 3), Claim(2, 3)])).sql,
    ]
    quoted = [part for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL) for part in block.split("\n\n")]
    assert len(quoted) == len(built)
    for quote, sql in zip(quoted, built, strict=True):
        pattern = re.escape(" ".join(quote.split())).replace("…", ".*")
        assert re.fullmatch(pattern, sql), quote
