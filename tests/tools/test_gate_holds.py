"""The gate and the night hold what they must: whoever makes one quicker thins it of nothing that keeps a promise."""

from __future__ import annotations

import re
import subprocess
from itertools import chain

import pytest

from tests import gate
from tests.conftest import ROOT
from tests.mutants.planted import read_all
from tests.servers.held import Case, Held, cases_on
from tests.servers.suite import DATABASES

pytestmark = pytest.mark.once

BY_THE_ORM = {
    *(f"tests/{folder}/" for folder in ("commands", "flights", "otel", "progress", "sentry", "testing", "tools")),
    *(f"tests/monitors/test_{each}.py" for each in ("health", "openmetrics", "scrape_at_scale")),
}
"""What takes the database as the ORM or a worker shows it: SQLite is asked."""
OF_THE_WORKER = {
    f"tests/process/test_{each}.py"
    for each in (
        *("batches", "coroutines", "forks", "group_rates", "groups_in_a_row", "heartbeat", "hostile_handlers"),
        *("last_words", "late_signals", "liveness", "loop_resources", "memory", "order", "pauses"),
        *(
            "recycled_by_memory",
            "recycling",
            "schedules",
            "speech",
            "statistics",
            "successors",
            "supervisor",
            "unserved_queues",
        ),
    )
}
"""What a worker does by itself, or by statements that other tests ask these servers for."""
BY_PYTHON = {
    f"tests/process/test_{each}.py"
    for each in (
        *("coroutines", "forks", "hostile_handlers", "last_words", "liveness", "loop_resources", "memory"),
        *("recycled_by_memory", "speech", "supervisor"),
        "unserved_queues",
    )
}
OF_SCHEMAS = {"tests/pages/test_tenants_page.py"}
NOT_ON = {
    "mariadb": BY_THE_ORM | BY_PYTHON | OF_SCHEMAS,
    "postgres": BY_THE_ORM | OF_THE_WORKER | {"tests/admin/"},
    "mysql": BY_THE_ORM | OF_THE_WORKER | OF_SCHEMAS | {"tests/admin/"},
}
"""What each server is not asked by night."""


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


def test_no_name_of_a_test_has_an_address_in_it_which_differs_in_each_process(cases: dict[str, list[Case]]) -> None:
    """pytest-xdist refuses to begin: its processes collect different tests."""
    assert [case.name for case in chain(*cases.values()) if " at 0x" in case.name] == []


def test_what_is_tested_once_is_there_where_it_is_tested(cases: dict[str, list[Case]]) -> None:
    on_sqlite = {case.name for case in cases["sqlite"]}
    assert [case.name for case in chain(*cases.values()) if "once" in case.marks and case.name not in on_sqlite] == []


def lists_of(server: str) -> tuple[tuple[str, ...], set[str]]:
    """What the night names for a server, and what it leaves out of that."""
    text = (ROOT / "bin/nightly").read_text()
    found = re.search(r"^parallel=.*?(?=^part_seeds)", text, re.M | re.S)
    assert found
    program = f'{found[0]}\nbin/test() {{ printf "%s\\n" "$@"; }}\npart_{server}\npart_spark'
    words = subprocess.run(["bash", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    folders = tuple(f"{word}/" if (ROOT / word).is_dir() else word for word in words if word.startswith("tests/"))
    return folders, {word.removeprefix("--ignore=") for word in words if word.startswith("--ignore=")}


@pytest.mark.parametrize("server", NOT_ON)
def test_by_night_each_test_of_the_database_runs_on_each_server_or_is_left_out_by_name(
    server: str, cases: dict[str, list[Case]]
) -> None:
    files = {case.name.partition("::")[0] for case in cases[server] if "once" not in case.marks}
    wanted, ignored = lists_of(server)
    run = {file for file in files if file.startswith(wanted) and file not in ignored}
    left_out = {file for file in files if file.startswith(tuple(NOT_ON[server]))}
    assert files - run - left_out == set(), "name them in bin/nightly, or here"
    assert run & left_out == set(), "they run"
    assert [each for each in NOT_ON[server] if not any(file.startswith(each) for file in files)] == []


def test_each_path_that_the_night_names_is_there() -> None:
    for server in NOT_ON:
        wanted, ignored = lists_of(server)
        assert [path for path in (*wanted, *ignored) if not (ROOT / path).exists()] == []


def _is_among(test: str, names: list[str]) -> bool:
    return any(name == test or name.startswith((f"{test}::", f"{test}[")) for name in names)
