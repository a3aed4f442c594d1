"""What an error of a driver means: who asks for one kind isn't told of another."""

from __future__ import annotations

import pytest
from django.db import OperationalError

from django_dbqueue.databases import means
from django_dbqueue.databases.errors import Kind
from django_dbqueue.sessions.retry import is_out_of_memory

pytestmark = pytest.mark.once


class PostgreSQLError(Exception):
    def __init__(self, state: str) -> None:
        self.sqlstate = state


@pytest.mark.parametrize(
    ("error", "kinds"),
    [
        (OperationalError(1142, "SELECT command denied"), {"denied"}),
        (OperationalError(1227, "you need the PROCESS privilege"), {"denied", "hidden"}),
        (OperationalError(1045, "Access denied for user"), {"shut out"}),
        (PostgreSQLError("42501"), {"denied"}),
    ],
    ids=["a right", "others' sessions", "the server", "a right on PostgreSQL"],
)
def test_a_refusal_means_what_the_account_may_not(error: Exception, kinds: set[Kind]) -> None:
    every: tuple[Kind, ...] = ("denied", "hidden", "shut out")
    assert {kind for kind in every if means(error, kind)} == kinds


@pytest.mark.parametrize(
    "error",
    [
        OperationalError(1290, "running with the --read-only option so it cannot execute this statement"),
        OperationalError(1290, "running with the --super-read-only option so it cannot execute this statement"),
        OperationalError(1290, "Der MariaDB-Server läuft mit der Option --read-only und kann diese Anweisung"),
        OperationalError(1792, "Cannot execute statement in a READ ONLY transaction."),
        OperationalError(1836, "Running in read-only mode"),
        OperationalError(3100, "Error on observer while running replication hook 'before_commit'."),
        PostgreSQLError("25006"),
    ],
)
def test_a_server_that_takes_no_writes_is_demoted_which_is_an_outage(error: Exception) -> None:
    assert means(error, "demoted")
    assert means(error, "unable"), "no row is judged by it"
    assert not means(OperationalError(1146, "no such table"), "demoted")


@pytest.mark.parametrize(
    "text",
    [
        "The MySQL server is running with the --secure-file-priv option so it cannot execute this statement",
        "Der MariaDB-Server läuft mit der Option --event-scheduler=DISABLED or --skip-grant-tables und kann diese",
    ],
)
def test_a_server_whose_options_forbid_something_else_takes_writes(text: str) -> None:
    assert not means(OperationalError(1290, text), "demoted")


@pytest.mark.parametrize(
    "error",
    [
        OperationalError(5, "Out of memory (Needed 9 bytes)"),
        OperationalError(1030, 'Got error 128 "Out of memory in engine" from storage engine InnoDB'),
        OperationalError("could not map anonymous shared memory: Cannot allocate memory"),
        OperationalError(1037, "the server is short of it"),
        MemoryError(),
    ],
)
def test_a_lack_of_memory_is_one_whatever_its_code(error: Exception) -> None:
    assert is_out_of_memory(error)
    assert not is_out_of_memory(ValueError("out of memory"))
