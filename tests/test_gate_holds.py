"""The gate holds what it must: whoever makes it quicker thins it of nothing that keeps a promise."""

from __future__ import annotations

import re

import pytest

from tests import gate
from tests.conftest import ROOT
from tests.mutants.planted import read_all
from tests.servers.held import Held, cases_on
from tests.servers.suite import DATABASES

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    """Servers have the same tests, as far as planted bugs and promises name any."""
    on_sqlite, on_servers = (cases_on(each, tmp_path_factory.mktemp(each)) for each in ("sqlite", "mariadb"))
    parts = [part for parts in gate.PARTS.values() for part in parts]
    return Held(parts, {each: on_sqlite if each == "sqlite" else on_servers for each in DATABASES})


def test_each_planted_bug_is_seen_on_each_database_that_it_names(held: Held) -> None:
    """Of what only a part of the gate sees: when the file is touched that the bug is planted in."""
    unseen = []
    for bug in read_all(ROOT / "tests" / "mutants"):
        for database in bug.on:
            names = held.on(database, [bug.file])
            unseen += [(bug.name, database, test) for test in bug.tests if not _is_among(test, names)]
    assert not unseen, "\n".join(" ".join(each) for each in unseen)


def test_each_promise_has_a_test_whatever_is_changed(held: Held) -> None:
    names = [name for database in DATABASES for name in held.on(database)]
    promises = re.findall(r"^## (P\d+)\. (.*?)(?=^## )", (ROOT / "docs/promises.md").read_text(), re.M | re.S)
    assert len(promises) >= 20
    for number, text in promises:
        tests = re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", text)
        assert any(_is_among(test, names) for test in tests), number


def _is_among(test: str, names: list[str]) -> bool:
    return any(name == test or name.startswith((f"{test}::", f"{test}[")) for name in names)
