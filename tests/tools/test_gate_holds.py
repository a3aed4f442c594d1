"""The gate holds what it must: whoever makes it quicker thins it of nothing that keeps a promise."""

from __future__ import annotations

import re
from itertools import chain

import pytest

from tests import gate
from tests.conftest import ROOT
from tests.mutants.planted import read_all
from tests.servers.held import Case, Held, cases_on
from tests.servers.suite import DATABASES

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Case]]:
    """All tests. MySQL has those of MariaDB."""
    found = {each: cases_on(each, tmp_path_factory.mktemp(each)) for each in ("sqlite", "mariadb", "postgres")}
    return found | {"mysql": found["mariadb"]}


@pytest.fixture(scope="module")
def held(cases: dict[str, list[Case]]) -> Held:
    parts = [part for parts in gate.PARTS.values() for part in parts]
    return Held(parts, cases)


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


def test_what_is_tested_once_is_there_where_it_is_tested(cases: dict[str, list[Case]]) -> None:
    on_sqlite = {case.name for case in cases["sqlite"]}
    assert [case.name for case in chain(*cases.values()) if "once" in case.marks and case.name not in on_sqlite] == []


def _is_among(test: str, names: list[str]) -> bool:
    return any(name == test or name.startswith((f"{test}::", f"{test}[")) for name in names)
