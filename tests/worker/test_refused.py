"""An error of one row fails that row, never the worker: its end is recorded otherwise, and the others' as it is."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue import signals
from django_dbqueue.databases.statement import Kept
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.lifecycle.result_rows import OversizedResult
from django_dbqueue.models import Failure, Message, Result
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.sessions.retry import is_refused
from django_dbqueue.statements import changes_sql
from django_dbqueue.worker import aftermath
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.execution import ACK, Verdict, decided
from django_dbqueue.worker.settler import Settler
from tests.factories import QUEUE, held_many, row, waiting
from tests.refusing import pointing_at, refusing
from tests.whole_server import WholeServer
from tests.worker.test_settling import begin

pytestmark = pytest.mark.django_db(transaction=True)

DELETES = {"QUEUES": {QUEUE: {"on_ack": "delete"}}}


def ended(settler: Settler, verdict: Verdict, number: int = 9) -> list[Message]:
    """Have handlers end; what is returned is what they had."""
    messages = held_many(number)
    for message in messages:
        settler.add(begin(settler, message), verdict, 0.0)
    return messages


def states(messages: list[Message]) -> list[str]:
    found = {each.pk: "dead" if each.is_dead else each.status for each in Message.objects.all()}
    return [found.get(message.pk, "gone") for message in messages]


@pytest.mark.parametrize("at", [0, 4, 8])
def test_what_a_foreign_key_keeps_from_being_deleted_is_done_and_stays(
    settler: Settler, board: Board, settings: Any, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    settings.DBQUEUE = DELETES
    messages = ended(settler, ACK)
    with pointing_at(messages[at]):
        settler.flush()
        assert states(messages) == ["gone"] * at + ["y"] + ["gone"] * (8 - at)
    assert (len(settler), len(settler._holding), board.counter("done")) == (0, 0, 9)
    [logged] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert f"message {messages[at].pk} " in logged
    assert "IntegrityError" in logged


def test_beside_a_claim_it_keeps_nobody_from_being_claimed(settler: Settler, settings: Any) -> None:
    settings.DBQUEUE = DELETES
    messages = ended(settler, ACK)
    new = waiting()
    with pointing_at(messages[3]):
        [claimed] = Claimer(Message, session_of("default"), QUEUE).take(10, lease=60.0, max_reads=5, beside=settler)
        assert claimed.claim.id == new.pk
        assert states(messages) == ["gone"] * 3 + ["y"] + ["gone"] * 5
    assert len(settler) == 0


def test_what_returned_and_can_not_be_acked_is_dead_and_does_not_run_again(settler: Settler, board: Board) -> None:
    heard: list[tuple[int, str]] = []

    def hear(message_id: int, error: str, **_: Any) -> None:
        heard.append((message_id, error))

    signals.message_died.connect(hear)
    messages = ended(settler, ACK)
    with refusing("UPDATE", f"NEW.status = 'y' AND OLD.id = {messages[2].pk}"):
        settler.flush()
    signals.message_died.disconnect(hear)
    assert states(messages) == ["y"] * 2 + ["dead"] + ["y"] * 6
    error = row(messages[2])["error"]
    assert error.isascii()
    assert "the database refused the ack of this message" in error
    assert "as told" not in error
    assert heard == [(messages[2].pk, error)]
    assert Failure.objects.get().queue == QUEUE
    assert (board.counter("done"), board.counter("died")) == (8, 1)


@pytest.mark.parametrize("verb", ["nack", "reject", "drop", "cut off"])
def test_a_text_that_is_refused_is_replaced_and_not_repeated(settler: Settler, verb: Any) -> None:
    messages = ended(settler, Verdict(verb, 0.0 if verb == "nack" else None, "Unwanted: a text"), number=2)
    with refusing("UPDATE", f"NEW.error LIKE 'Unwanted%' AND OLD.id = {messages[0].pk}"):
        settler.flush()
    ends = {"nack": "n", "reject": "dead", "drop": "y", "cut off": "n"}
    assert states(messages) == [ends[verb]] * 2
    assert "the database refused the text of this message's error" in row(messages[0])["error"]
    assert row(messages[1])["error"] == "Unwanted: a text"


def test_what_is_refused_altogether_is_left_to_its_lease(settler: Settler, caplog: pytest.LogCaptureFixture) -> None:
    messages = ended(settler, Verdict("nack", 0.0, "as usual"), number=3)
    with refusing("UPDATE", f"OLD.id = {messages[1].pk}"):
        settler.flush()
    assert states(messages) == ["n", "run", "n"]
    assert (len(settler), len(settler._holding)) == (0, 0)
    assert f"message {messages[1].pk} of queue {QUEUE}" in caplog.text


def test_one_that_can_not_be_given_back_keeps_no_other_from_it(settler: Settler) -> None:
    messages = held_many(5)
    with refusing("UPDATE", f"OLD.id = {messages[4].pk}"):
        settler.give_back([begin(settler, message) for message in messages])
        settler.flush()
    assert states(messages) == ["n"] * 4 + ["run"]
    assert (len(settler), len(settler._holding)) == (0, 0)


def test_an_outage_is_no_refusal_and_what_was_collected_stays(settler: Settler, settings: Any) -> None:
    settings.DBQUEUE = DELETES
    messages = ended(settler, ACK, number=4)

    def away(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("UPDATE"):
            raise OperationalError("as if the server had gone away")
        return execute(sql, params, many, context)

    with pointing_at(messages[1]):
        with connection.execute_wrapper(away), pytest.raises(OperationalError):
            settler.flush()  # the second one is refused, and then can't be kept
        assert len(settler) == 3
        settler.flush()
        assert states(messages) == ["gone", "y", "gone", "gone"]


@pytest.mark.parametrize("returned", [True, False])
def test_a_supervisor_settles_what_its_dead_child_held_in_the_same_way(settings: Any, returned: bool) -> None:
    settings.DBQUEUE = DELETES
    messages = held_many(5)
    claims, session = [message.claim for message in messages], session_of("default")
    if returned:
        with pointing_at(messages[0]):
            assert aftermath._ack(session, claims) == set(claims)
            assert states(messages) == ["y"] + ["gone"] * 4
        return
    with refusing("UPDATE", f"NEW.status = 'n' AND NEW.available_at IS NOT NULL AND OLD.id = {messages[3].pk}"):
        aftermath._settle(session, changes_sql.release(session.server), claims)
        assert states(messages) == ["n", "n", "n", "dead", "n"]


def kept(body: str) -> Verdict:
    return ACK._replace(result=Kept(body, "json", 60.0))


if settings.TEST_DATABASE in ("mariadb", "mysql"):  # only their packets have a limit

    def test_a_result_larger_than_a_packet_fails_its_task_and_no_other(
        settler: Settler, whole_server: WholeServer, other_connection: BaseDatabaseWrapper
    ) -> None:
        messages = held_many(4)
        bodies = ["7", "'" * 600_000, "x" * 500_000, "y" * 500_000]
        with whole_server.saying(other_connection, "max_allowed_packet", 1024 * 1024):
            connection.close()
            for message, body in zip(messages, bodies, strict=True):
                settler.add(begin(settler, message), kept(body), 0.0)
            waiting()
            claimer = Claimer(Message, session_of("default"), QUEUE)
            assert len(claimer.take(1, lease=60.0, max_reads=5, beside=settler)) == 1
            settler.flush()
        connection.close()
        assert states(messages) == ["y", "dead", "y", "y"]
        assert row(messages[1])["error"].startswith("OversizedResult: the database refused the result of this message")
        assert set(Result.objects.values_list("pk", flat=True)) == {messages[at].pk for at in (0, 2, 3)}


def test_in_its_handlers_transaction_a_result_that_no_packet_takes_is_not_tried_again(settler: Settler) -> None:
    [message] = held_many(1)
    assert decided(begin(settler, message), OversizedResult("too large")).verb == "reject"


def refused_by(sql: str, *params: Any) -> bool:
    with pytest.raises(DatabaseError) as error, connection.cursor() as cursor:
        cursor.execute(sql, params)
    return is_refused(error.value)


def test_what_is_wrong_with_a_row_is_told_from_what_is_wrong_with_a_server() -> None:
    message = waiting()
    assert refused_by("UPDATE django_dbqueue_message SET body = NULL")
    if connection.vendor != "sqlite":
        assert refused_by("UPDATE django_dbqueue_message SET queue = %s WHERE id = %s", "q" * 500, message.pk)
    if connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE latin (t varchar(9) CHARACTER SET latin1)")
        assert refused_by("INSERT INTO latin (t) VALUES (%s)", "\N{GRINNING FACE}")
    with refusing("UPDATE", "1 = 1"):
        assert refused_by("UPDATE django_dbqueue_message SET priority = 1 WHERE id = %s", message.pk)
    assert not refused_by("SELECT * FROM no_such_table")
    assert not refused_by("SELECT no_such_column FROM django_dbqueue_message")
