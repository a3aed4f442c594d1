"""What the server refuses for reasons of one row fails that row, whatever its code: it is judged by what it does."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from django.db import DatabaseError, OperationalError, connection

from django_dbqueue import signals
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.databases.statement import Kept
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.liveness import late_workers
from django_dbqueue.models import Message, Result, Worker
from django_dbqueue.models.fields import clock
from django_dbqueue.operations import bulk
from django_dbqueue.operations.mover import move_page
from django_dbqueue.operations.verbs import VERBS
from django_dbqueue.sessions import doubts
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.statements import moves_sql
from django_dbqueue.worker import aftermath, heartbeat
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.execution import ACK, Verdict
from django_dbqueue.worker.settler import Settler
from tests.factories import QUEUE, dead, done, held_many, let_end, row, waiting
from tests.refusing import WHYS, Why, refusing
from tests.worker.test_refused import DELETES, ended, states
from tests.worker.test_settling import begin

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=WHYS)
def why(request: pytest.FixtureRequest) -> Why:
    """Return a way in which a trigger fails; on SQLite one that names what is gone lets nobody update any row."""
    why: Why = request.param
    return "signals" if connection.vendor == "sqlite" and why == "names what is gone" else why


@pytest.fixture
def handled() -> Iterator[list[BaseException | None]]:
    """Return what was being handled while each failure and death was reported: a monitor takes that for its cause."""
    heard: list[BaseException | None] = []

    def hear(**_: Any) -> None:
        heard.append(sys.exc_info()[1])

    signals.message_failed.connect(hear)
    signals.message_died.connect(hear)
    yield heard
    signals.message_failed.disconnect(hear)
    signals.message_died.disconnect(hear)


def test_an_ack_that_a_trigger_fails_fails_its_message_and_no_other(
    settler: Settler, board: Board, why: Why, caplog: pytest.LogCaptureFixture, handled: list[BaseException | None]
) -> None:
    messages = ended(settler, ACK)
    with refusing("UPDATE", f"NEW.status = 'y' AND OLD.id = {messages[2].pk}", why=why):
        settler.flush()
    assert states(messages) == ["y"] * 2 + ["dead"] + ["y"] * 6
    assert "the database refused the ack of this message" in row(messages[2])["error"]
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert [each.partition(" of ")[0] for each in logged] == [f"message {messages[2].pk}"] * 2
    assert all(re.search(r"Error( \w+)?: ", each) for each in logged)
    assert not any(record.exc_info for record in caplog.records)  # the server's texts quote rows
    assert (len(settler), len(settler._holding), board.counter("died")) == (0, 0, 1)
    assert handled == [None]


def test_an_ack_that_is_sent_with_a_claim_fails_neither_the_claim_nor_others(settler: Settler, why: Why) -> None:
    messages = ended(settler, ACK)
    new = waiting()
    with refusing("UPDATE", f"NEW.status = 'y' AND OLD.id = {messages[2].pk}", why=why):
        [claimed] = Claimer(Message, session_of("default"), QUEUE).take(10, lease=60.0, max_reads=5, partner=settler)
    assert claimed.claim.id == new.pk
    assert states(messages) == ["y"] * 2 + ["dead"] + ["y"] * 6


@pytest.mark.parametrize("verb", ["nack", "reject", "cut off"])
def test_a_text_is_replaced(settler: Settler, why: Why, verb: Any, handled: list[BaseException | None]) -> None:
    messages = ended(settler, Verdict(verb, 0.0 if verb == "nack" else None, "Unwanted: a text"), number=2)
    with refusing("UPDATE", f"NEW.error LIKE 'Unwanted%' AND OLD.id = {messages[0].pk}", why=why):
        settler.flush()
    assert states(messages) == [{"reject": "dead"}.get(verb, "n")] * 2
    assert "the database refused the text of this message's error" in row(messages[0])["error"]
    assert handled == [None] * (0 if verb == "cut off" else 2)


def test_a_supervisor_replaces_the_text_of_what_timed_out(
    board: Board, why: Why, handled: list[BaseException | None]
) -> None:
    def übersetzen(message: Message) -> None: ...

    [message] = held_many(1)
    consumer = Consumer(QUEUE, übersetzen, {"timeout": 1.0})
    with refusing("UPDATE", f"NEW.error LIKE '%übersetzen%' AND OLD.id = {message.pk}", why=why):
        moved = aftermath._nack_timed_out(session_of("default"), {QUEUE: consumer}, [message.claim], board)
    assert moved == {message.claim}
    assert "\\xfcbersetzen" in row(message)["error"]
    assert handled == [None]


def test_a_release_is_left_to_its_lease(settler: Settler, why: Why) -> None:
    messages = held_many(5)
    with refusing("UPDATE", f"OLD.id = {messages[4].pk}", why=why):
        settler.release([begin(settler, message) for message in messages])
        settler.flush()
    assert states(messages) == ["n"] * 4 + ["run"]
    assert (len(settler), len(settler._holding)) == (0, 0)


def test_an_extension_that_a_trigger_fails_keeps_no_other_lease_from_being_extended(settler: Settler, why: Why) -> None:
    messages = held_many(5)
    deliveries = [begin(settler, message) for message in messages]
    before = [row(message)["available_at"] for message in messages]
    with refusing("UPDATE", f"OLD.id = {messages[2].pk}", why=why):
        heartbeat.extend(session_of("default"), deliveries)
    assert [row(message)["available_at"] != was for message, was in zip(messages, before, strict=True)] == [
        *(True, True, False, True, True)
    ]
    assert not any(message.lease_lost for message in messages)


def test_a_row_of_a_worker_that_is_held_ends_the_aftermath(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker.objects.create(
        id=7, host="h", pid=1, queues=QUEUE, threads=1, beat_at=clock("default"), beat_every=1, held=0
    )
    with refusing("DELETE", "1 = 1", table=Worker._meta.db_table):
        late_workers.delete_ended(session_of("default"), worker.pk)
    assert Worker.objects.filter(pk=worker.pk).exists()
    assert f"worker {worker.pk} (" in caplog.text


def test_a_result_fails_its_task(settler: Settler, why: Why) -> None:
    messages = ended(settler, ACK._replace(result=Kept("7", "json", 60.0)), number=4)
    condition = f"NEW.message_id = {messages[1].pk}"
    with refusing("INSERT", condition, table="django_dbqueue_result", why=why):
        settler.flush()
    assert states(messages) == ["y", "dead", "y", "y"]
    assert Result.objects.count() == 3


@pytest.mark.parametrize("table", ["messageevent", "failure"])
def test_a_record_fails_its_message_and_no_other(settler: Settler, why: Why, table: str) -> None:
    messages = ended(settler, Verdict("nack", 0.0, "Unwanted: a text", exception="shop.Unwanted"), number=1)
    others = ended(settler, Verdict("nack", 0.0, "as usual"), number=2)
    condition = "NEW.detail LIKE 'Unwanted%'" if table == "messageevent" else "NEW.exception LIKE '%Unwanted%'"
    with refusing("INSERT", condition, table=f"django_dbqueue_{table}", why=why):
        settler.flush()
    assert states(messages + others) == ["n"] * 3
    assert "the database refused the text of this message's error" in row(messages[0])["error"]


def test_what_can_not_be_deleted_is_kept_as_done(settler: Settler, settings: Any, why: Why) -> None:
    settings.DBQUEUE = DELETES
    messages = ended(settler, ACK)
    if connection.vendor == "mysql" and why == "divides by zero":
        why = "has two rows"  # in a DELETE that is no error
    with refusing("DELETE", f"OLD.id = {messages[2].pk}", why=why):
        settler.flush()
    assert states(messages) == ["gone"] * 2 + ["y"] + ["gone"] * 6


def test_a_supervisor_an_archiver_a_rescue_and_an_operator_pass_it_by(why: Why) -> None:
    session = session_of("default")
    held, over, buried, old = held_many(3), held_many(3), [dead() for _ in range(3)], [done() for _ in range(3)]
    let_end(*over)
    refused = ", ".join(str(each[1].pk) for each in (held, over, buried))
    with refusing("UPDATE", f"OLD.id IN ({refused})", why=why):
        released = aftermath._settle(session, moves_sql.release(session.server), [each.claim for each in held])
        assert released == {held[0].claim, held[2].claim}
        assert Message.objects.rescue(QUEUE) == 2
        changed = Message.objects.dead(QUEUE).filter(pk__in=[buried[0].pk, buried[1].pk]).requeue()
        assert (changed, len(changed.conflicts)) == (1, 1)
        selection = bulk.Selection.now(session, state="dead", queue=QUEUE)
        step = move_page(Message, session, VERBS["requeue"].ordered("ann", "as told"), selection, "")
        assert (list(step.moved), list(step.left)) == ([buried[2].pk], [buried[1].pk])
    if connection.vendor == "mysql" and why == "divides by zero":
        return
    with refusing("DELETE", f"OLD.id = {old[1].pk}", why=why):
        assert Message.objects.archive(QUEUE, older_than=0) == 2
    assert states(old) == ["gone", "y", "gone"]


RENAME = "ALTER TABLE django_dbqueue_{} RENAME TO django_dbqueue_{}"
READ_ONLY: Final = {
    "sqlite": ("PRAGMA query_only = 1", "PRAGMA query_only = 0"),
    "mysql": ("SET SESSION TRANSACTION READ ONLY", "SET SESSION TRANSACTION READ WRITE"),
    "postgresql": ("SET default_transaction_read_only = on", "SET default_transaction_read_only = off"),
}
OUTAGES: Final = {
    "a read-only session": READ_ONLY[connection.vendor],
    "a table of results that is gone": (RENAME.format("result", "gone"), RENAME.format("gone", "result")),
    "a table of events that lacks a column": (
        "ALTER TABLE django_dbqueue_messageevent RENAME COLUMN detail TO gone",
        "ALTER TABLE django_dbqueue_messageevent RENAME COLUMN gone TO detail",
    ),
}


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_is_waited_out_and_all_is_settled_as_it_was_to_be(settler: Settler, outage: str) -> None:
    messages = ended(settler, ACK._replace(result=Kept("7", "json", 60.0)), number=3)
    messages += ended(settler, Verdict("nack", 0.0, "as usual"), number=2)
    begins, ends = OUTAGES[outage]
    run(begins)
    try:
        for _ in range(4):
            with pytest.raises(DatabaseError):
                settler.flush()
    finally:
        run(ends)
    settler.flush()
    assert states(messages) == ["y", "y", "y", "n", "n"]
    assert {row(each)["error"] for each in messages[3:]} == {"as usual"}


@contextmanager
def failing(times: int, error: Callable[[], DatabaseError]) -> Iterator[None]:
    """Fail the first updates of messages that way."""
    left = [times]

    def fail(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("UPDATE") and "status" in sql and left[0] > 0:
            left[0] -= 1
            raise error()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(fail):
        yield


class _Answer(Exception):
    """A driver's error."""

    def __init__(self, code: int, state: str, text: str) -> None:
        super().__init__(*((code, text) if connection.vendor == "mysql" else (text,)))
        if connection.vendor == "postgresql":
            self.sqlstate = state
        if connection.vendor == "sqlite":
            self.sqlite_errorcode = code


def answer(mysql: int, state: str, sqlite: int) -> Callable[[], DatabaseError]:
    def make() -> DatabaseError:
        cause = _Answer(sqlite if connection.vendor == "sqlite" else mysql, state, "as if")
        error = OperationalError(*cause.args)
        error.__cause__ = cause
        return error

    return make


@pytest.mark.parametrize(
    "codes",
    [(1114, "53100", 13), (1290, "25006", 8), (1142, "42501", 23), (1030, "58030", 10), (1317, "57014", 9)],
    ids=["full", "read-only", "denied", "broken", "ended"],
)
def test_what_no_row_causes_is_an_outage_however_often(settler: Settler, codes: Any) -> None:
    messages = ended(settler, ACK, number=3)
    with failing(9, answer(*codes)):
        for _ in range(4):
            with pytest.raises(DatabaseError):
                settler.flush()
    settler.flush()
    assert states(messages) == ["y"] * 3


def test_what_was_refused_once_and_then_not_fails_no_message(
    settler: Settler, caplog: pytest.LogCaptureFixture
) -> None:
    messages = ended(settler, ACK, number=3)
    with failing(2, answer(1146, "42P01", 1)):
        settler.flush()
    assert states(messages) == ["y"] * 3
    assert "refused" not in caplog.text


def test_what_was_judged_is_not_judged_again_for_each_row(settler: Settler, monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    monkeypatch.setattr(doubts.time, "sleep", naps.append)
    messages = ended(settler, ACK)
    with refusing("UPDATE", f"NEW.status = 'y' AND OLD.id > {messages[2].pk}", why="has a code of its own"):
        settler.flush()
    assert states(messages) == ["y"] * 3 + ["dead"] * 6
    assert tuple(naps) == doubts.PAUSES
