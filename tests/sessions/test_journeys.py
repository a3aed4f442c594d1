"""A claim's first statement takes BEGIN and acks along where the driver sends several at once; else each goes alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from django_dbqueue.databases import Statement
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession, Prelude
from django_dbqueue.sessions.transaction_begin import takes_many
from tests.factories import claimed, waiting

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
    _reconnect()
    yield
    assert not connection.execute_wrappers
    monkeypatch.undo()
    _reconnect()


def _reconnect() -> None:
    connection.close()
    vars(connection.features).pop("uses_server_side_binding", None)  # Django looks once


def change(reads: int) -> int:
    return DjangoSession("default").run(Statement(f"UPDATE {TABLE} SET max_reads = %s", (reads,)))


def test_what_the_block_does_is_committed_together() -> None:
    waiting()
    with DjangoSession("default").transaction(saves_a_journey=True):
        assert change(77) == 1
        assert DjangoSession("default").fetch(Statement(f"SELECT max_reads FROM {TABLE}", ())) == [(77,)]
    assert Message.objects.get().max_reads == 77
    assert connection.get_autocommit()


def test_what_the_block_does_is_rolled_back_together() -> None:
    waiting(max_reads=3)
    with DjangoSession("default").transaction(saves_a_journey=True):
        assert change(77) == 1
        transaction.set_rollback(True)
    assert Message.objects.get().max_reads == 3


def test_an_error_of_the_first_statement_is_djangos_and_nothing_stays_open() -> None:
    with pytest.raises(DatabaseError), DjangoSession("default").transaction(saves_a_journey=True):
        DjangoSession("default").run(Statement("UPDATE no_such_table SET a = %s", (1,)))
    with transaction.atomic():
        assert waiting().pk


def test_a_block_without_statements_begins_nothing() -> None:
    with DjangoSession("default").transaction(saves_a_journey=True):
        pass
    assert waiting().pk


def test_the_first_may_be_a_savepoint_or_the_orms() -> None:
    waiting(max_reads=3)
    with DjangoSession("default").transaction(saves_a_journey=True):
        with transaction.atomic():
            assert Message.objects.update(max_reads=77) == 1
        transaction.set_rollback(True)
    assert Message.objects.get().max_reads == 3


def prelude(reads: int, counts: list[int]) -> Prelude:
    return Prelude(Statement(f"UPDATE {TABLE} SET max_reads = %s", (reads,)), counts.append)


def test_a_prelude_is_done_in_the_transaction_before_the_first() -> None:
    waiting(), waiting()
    counts: list[int] = []
    with CaptureQueriesContext(connection) as sent, DjangoSession("default").transaction(saves_a_journey=True):
        with DjangoSession("default").with_first_statement(prelude(77, counts)):
            assert DjangoSession("default").fetch(Statement(f"SELECT max_reads FROM {TABLE} WHERE id > %s", (0,))) == [
                (77,),
                (77,),
            ]
        assert change(78) == 2
    assert counts == [2]
    assert set(Message.objects.values_list("max_reads", flat=True)) == {78}
    assert sum(TABLE in query["sql"] for query in sent) == (2 if takes_many(connection) else 3)


def test_what_follows_a_prelude_is_done_before_the_first() -> None:
    waiting(max_reads=3)
    then = Statement(f"UPDATE {TABLE} SET max_reads = max_reads + %s", (1,))
    session, counts = DjangoSession("default"), list[int]()
    with CaptureQueriesContext(connection) as sent, session.transaction(saves_a_journey=True):
        with session.with_first_statement(prelude(77, counts)._replace(then=then)):
            assert session.fetch(Statement(f"SELECT max_reads FROM {TABLE} WHERE id > %s", (0,))) == [(78,)]
        with session.with_first_statement(prelude(87, counts)._replace(then=then)):
            pass
        assert session.fetch(Statement(f"SELECT max_reads FROM {TABLE} WHERE id > %s", (0,))) == [(88,)]
    assert counts == [1, 1]
    assert sum(TABLE in query["sql"] for query in sent) == (4 if takes_many(connection) else 6)


def test_a_prelude_of_a_savepoint_is_not_undone_with_it() -> None:
    waiting(max_reads=3)
    with (
        DjangoSession("default").transaction(saves_a_journey=True),
        DjangoSession("default").with_first_statement(prelude(77, [])),
    ):
        with transaction.atomic():
            assert change(78) == 1
            transaction.set_rollback(True)
        assert Message.objects.get().max_reads == 77
    assert Message.objects.get().max_reads == 77


def test_a_prelude_is_done_though_nothing_follows() -> None:
    waiting()
    counts: list[int] = []
    with (
        DjangoSession("default").transaction(saves_a_journey=True),
        DjangoSession("default").with_first_statement(prelude(77, counts)),
    ):
        pass
    assert (counts, Message.objects.get().max_reads) == ([1], 77)


def test_whoever_hears_of_a_prelude_may_refuse_all_of_it() -> None:
    waiting(max_reads=3)

    def refuse(matched: int) -> None:
        raise LookupError(matched)

    refused = prelude(77, [])._replace(check=refuse)
    begun = DjangoSession("default").transaction(saves_a_journey=True)
    with pytest.raises(LookupError), begun, DjangoSession("default").with_first_statement(refused):
        change(78)
    assert Message.objects.get().max_reads == 3
    assert change(79) == 1


def test_an_error_behind_a_prelude_undoes_both() -> None:
    waiting(max_reads=3)
    begun = DjangoSession("default").transaction(saves_a_journey=True)
    with pytest.raises(DatabaseError), begun, DjangoSession("default").with_first_statement(prelude(77, [])):
        DjangoSession("default").run(Statement("UPDATE no_such_table SET a = %s", (1,)))
    assert Message.objects.get().max_reads == 3


if settings.TEST_DATABASE == "postgres":  # whose BEGIN says the level

    @pytest.mark.parametrize("saves_a_journey", [True, False])
    def test_a_transaction_is_read_committed_whatever_the_session_would_be(saves_a_journey: bool) -> None:
        DjangoSession("default").run(Statement("SET default_transaction_isolation = 'repeatable read'", ()))
        with DjangoSession("default").transaction(saves_a_journey=saves_a_journey):
            assert DjangoSession("default").fetch(Statement("SHOW transaction_isolation", ())) == [("read committed",)]


def test_a_wrapper_of_the_projects_may_send_something_of_its_own() -> None:
    waiting(max_reads=3)
    sent = []

    def nosy(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if not sent:
            sent.append(sql)
            assert DjangoSession("default").fetch(Statement("SELECT 1", ())) == [(1,)]
        return execute(sql, params, many, context)

    with connection.execute_wrapper(nosy), DjangoSession("default").transaction(saves_a_journey=True):
        assert change(77) == 1
        transaction.set_rollback(True)
    assert Message.objects.get().max_reads == 3


def test_a_claim_claims() -> None:
    waiting(payload=1), waiting(payload=2)
    assert claimed() == [1, 2]
