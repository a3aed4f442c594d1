"""A claim's first statement takes BEGIN along, where the driver sends several at once, and goes alone where not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.db import DatabaseError, connection, transaction

from django_dbqueue.databases import Statement
from django_dbqueue.lifecycle.statements import fetch, run, short_transaction
from django_dbqueue.models import Message
from tests.factories import claimed, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db(transaction=True)
TABLE = Message._meta.db_table


@pytest.fixture(autouse=True, params=["together", "one at a time"])
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As it is by default, and told to send one statement at a time."""
    options = connection.settings_dict["OPTIONS"]
    if request.param != "together" and connection.vendor == "mysql":
        monkeypatch.setitem(options, "multi_statements", False)
    if request.param != "together" and connection.vendor == "postgresql":
        monkeypatch.setitem(options, "server_side_binding", True)
    _connect_anew()
    yield
    assert not connection.execute_wrappers
    monkeypatch.undo()
    _connect_anew()


def _connect_anew() -> None:
    connection.close()
    vars(connection.features).pop("uses_server_side_binding", None)  # Django looks once


def change(reads: int) -> int:
    return run("default", Statement(f"UPDATE {TABLE} SET max_reads = %s", (reads,)))


def test_what_the_block_does_is_committed_together() -> None:
    waiting()
    with short_transaction("default", saves_a_journey=True):
        assert change(77) == 1
        assert fetch("default", Statement(f"SELECT max_reads FROM {TABLE}", ())) == [(77,)]
    assert Message.objects.get().max_reads == 77
    assert connection.get_autocommit()


def test_what_the_block_does_is_rolled_back_together() -> None:
    waiting(max_reads=3)
    with short_transaction("default", saves_a_journey=True):
        assert change(77) == 1
        transaction.set_rollback(True)
    assert Message.objects.get().max_reads == 3


def test_an_error_of_the_first_statement_is_djangos_and_nothing_stays_open() -> None:
    with pytest.raises(DatabaseError), short_transaction("default", saves_a_journey=True):
        run("default", Statement("UPDATE no_such_table SET a = %s", (1,)))
    with transaction.atomic():
        assert waiting().pk


def test_a_block_that_says_nothing_begins_nothing() -> None:
    with short_transaction("default", saves_a_journey=True):
        pass
    assert waiting().pk


def test_the_first_may_be_a_savepoint_or_the_orms() -> None:
    waiting(max_reads=3)
    with short_transaction("default", saves_a_journey=True):
        with transaction.atomic():
            assert Message.objects.update(max_reads=77) == 1
        transaction.set_rollback(True)
    assert Message.objects.get().max_reads == 3


if settings.TEST_DATABASE == "postgres":  # whose BEGIN says the level

    @pytest.mark.parametrize("saves_a_journey", [True, False])
    def test_a_transaction_is_read_committed_whatever_the_session_would_be(saves_a_journey: bool) -> None:
        run("default", Statement("SET default_transaction_isolation = 'repeatable read'", ()))
        with short_transaction("default", saves_a_journey=saves_a_journey):
            assert fetch("default", Statement("SHOW transaction_isolation", ())) == [("read committed",)]


def test_a_claim_claims() -> None:
    waiting(payload=1), waiting(payload=2)
    assert claimed() == [1, 2]
