"""``@consumer(..., transactional=True)`` in a real worker: the handler's rows and the ack are one commit (P15)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction

from django_dbqueue.models import Message, Queue
from tests.concurrency.steps import aside, until_somebody_waits_for_us
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def send(then: dict[str, Any], queue: str = "transactional") -> Message:
    return Message.objects.enqueue({"do": "effect", "then": then}, queue=queue)


def effects(message: Message) -> list[str]:
    """The deliveries of which a row stands."""
    names = Queue.objects.filter(name__startswith=f"effect-{message.pk}-").order_by("name")
    return [name.rpartition("-")[2] for name in names.values_list("name", flat=True)]


def stored(message: Message) -> Message:
    return Message.objects.get(pk=message.pk)


def test_whatever_the_handler_raises_undoes_its_rows_and_decides_about_the_message(
    drain: Callable[..., Any],
) -> None:
    ok = send({"do": "ok"})
    passing = send({"do": "fail", "times": 2})
    failing = send({"do": "fail"})
    retried = send({"do": "retry", "after": 0.05})
    rejected = send({"do": "reject"})
    leaving = send({"do": "exit"})
    drain("--threads", "2")
    assert (stored(ok).status, effects(ok)) == ("y", ["1"])
    assert (stored(passing).status, effects(passing)) == ("y", ["3"])
    assert (stored(failing).is_dead, stored(failing).read_count, effects(failing)) == (True, 3, [])
    assert (stored(retried).status, effects(retried)) == ("y", ["2"])
    assert (stored(rejected).is_dead, stored(rejected).error, effects(rejected)) == (True, "not wanted", [])
    assert (stored(leaving).is_dead, effects(leaving)) == (True, [])


@pytest.mark.parametrize(("verb", "status", "count"), [("ack", "y", 1), ("nack", "n", 3), ("reject", "n", 1)])
def test_a_handler_that_settles_by_itself_commits_its_word_with_its_rows(
    drain: Callable[..., Any], verb: str, status: str, count: int
) -> None:
    message = send({"do": "settle", "verb": verb})
    worker = drain()
    assert (stored(message).status, stored(message).read_count) == (status, count)
    assert len(effects(message)) == count
    assert "refused" not in worker.output


def test_its_acks_are_counted_and_signalled_like_any_other(drain: Callable[..., Any]) -> None:
    message = send({"do": "ok"})
    worker = drain("--verbosity", "2")
    assert f"message {message.pk} of transactional done in" in worker.output
    assert "worker ended: 1 done, 0 failed" in worker.output


def test_a_claim_that_is_lost_in_between_undoes_the_rows_and_the_loser_reports_nothing_more(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    message = send({"do": "until", "file": str(gate)})
    worker = start_worker()
    worker.wait_for("begin", message.pk)
    if connection.vendor == "sqlite":
        return _on_sqlite_it_can_not_be_claimed(message, gate, worker)
    assert Message.objects.filter(pk=message.pk).drop_all("not needed any more") == 1
    before = Message.objects.values().get(pk=message.pk)
    gate.touch()
    worker.wait_for_output("refused: its claim was lost")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert effects(message) == []
    assert Message.objects.values().get(pk=message.pk) == before
    return None


def _on_sqlite_it_can_not_be_claimed(message: Message, gate: Path, worker: Any) -> None:
    """The handler's transaction has the file's only write lock."""
    gate.touch()
    worker.wait_for("end", message.pk)
    wait_until(lambda: stored(message).status == "y", "the ack")
    assert effects(message) == ["1"]


def test_a_handler_that_is_too_slow_is_undone_and_nacked(drain: Callable[..., Any]) -> None:
    slow = send({"do": "sleep", "seconds": 30}, "transactional-timed")
    drain("--grace", "1")  # on SQLite its child may wait for the handler's own lock until it is killed
    row = stored(slow)
    assert (row.is_dead, row.read_count, row.crashes, effects(slow)) == (True, 2, 0, [])
    assert "TimedOut" in str(row.error)


def test_a_handler_that_hangs_is_ended_though_it_keeps_the_worker_from_writing(drain: Callable[..., Any]) -> None:
    """On SQLite, where its transaction has the file's only write lock, so that no other message can be acked."""
    others = [send({"do": "sleep", "seconds": 0.1}, "second") for _ in range(10)]
    hung = send({"do": "sleep", "seconds": 300}, "transactional-timed")
    drain("--threads", "2", "--grace", "0")
    row = stored(hung)
    assert (row.is_dead, row.read_count, row.crashes) == (True, 2, 0)
    assert "TimedOut" in str(row.error)
    assert {stored(each).status for each in others} == {"y"}


def test_a_handler_that_settles_twice_has_failed_and_its_message_is_released_at_once(
    drain: Callable[..., Any],
) -> None:
    """The first word was undone with the transaction, so that the claim is still the worker's."""
    message = send({"do": "settle twice", "verb": "ack"})
    worker = drain()
    row = stored(message)
    assert (row.is_dead, row.read_count, row.crashes, effects(message)) == (True, 3, 0, [])
    assert "LeaseLost" in str(row.error)
    assert "2 failed and retried, 1 dead" in worker.output


@pytest.mark.parametrize(("deadlock", "error"), [(False, "ValueError: after the commit"), (True, "deadlock")])
def test_a_hook_on_the_commit_that_fails_leaves_the_message_done(
    drain: Callable[..., Any], *, deadlock: bool, error: str
) -> None:
    message = send({"do": "hook that fails", "deadlock": deadlock})
    worker = drain()
    assert (stored(message).status, stored(message).read_count, effects(message)) == ("y", 1, ["1"])
    assert len(worker.notes("begin")) == 1
    assert f"message {message.pk} was already done when its handler ended with: " in worker.output
    assert error in worker.output
    assert "worker ended: 1 done, 0 failed" in worker.output


def test_a_handler_that_broke_the_connection_before_it_harms_none(drain: Callable[..., Any]) -> None:
    for how in ("autocommit off", "open atomic", "closed"):
        Message.objects.enqueue({"do": "break connection", "how": how}, queue="test")
        send({"do": "ok"})
    drain("--batch", "1")
    assert Message.objects.done("transactional").count() == 3
    assert Queue.objects.filter(name__startswith="effect-").count() == 3


if settings.TEST_DATABASE != "sqlite":  # which has one writer: nobody waits for a row there, or locks two

    def test_the_victim_of_a_deadlock_runs_again_at_once_in_the_same_delivery(
        start_worker: Callable[..., Any], tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        Queue.objects.bulk_create(Queue(name=name) for name in ["a", "b", *(f"ballast-{n}" for n in range(50))])
        message = send({"do": "lock in turn", "names": ["a", "b"], "file": str(gate)})
        worker = start_worker()
        with transaction.atomic():
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute("SET LOCAL deadlock_timeout = '30s'")
            Queue.objects.exclude(name="a").update(paused_by="mine")  # InnoDB spares who wrote more
            worker.wait_for("locked", message.pk)
            gate.touch()
            Queue.objects.filter(name="a").update(paused_by="mine")
        wait_until(lambda: stored(message).status == "y", "the second run to be acked")
        assert (stored(message).read_count, effects(message)) == (1, ["1"])
        steps = [note["step"] for note in worker.notes(message_id=message.pk)]
        assert steps == ["begin", "locked", "begin", "locked", "end"]
        assert dict(Queue.objects.values_list("name", "paused_by"))["b"] == str(message.pk)

    def test_a_row_that_a_dead_session_still_locks_holds_up_none_but_its_message(
        start_worker: Callable[..., Any],
    ) -> None:
        with _a_dead_session_that_locks_its_row(start_worker) as (message, worker):
            other = _send_on_another_connection({"do": "ok"})
            worker.wait_for("end", other)
        wait_until(lambda: stored(message).status == "y", "the second delivery to be acked")
        assert (stored(message).read_count, effects(message)) == (2, ["2"])

    def test_a_row_that_a_dead_session_still_locks_holds_up_no_other_childs_messages(
        start_worker: Callable[..., Any],
    ) -> None:
        with _a_dead_session_that_locks_its_row(start_worker) as (message, worker):
            other = _send_on_another_connection({"do": "die"})
            worker.wait_for("begin", other, times=3)
            assert "session gone" not in worker.output, "a guardian was faster than the supervisor"
        wait_until(lambda: stored(message).status == "y", "the second delivery to be acked")

    @contextmanager
    def _a_dead_session_that_locks_its_row(start_worker: Callable[..., Any]) -> Iterator[tuple[Message, Any]]:
        """The dead child's session waits for our lock, so that the server doesn't notice that nobody is there."""
        Queue.objects.create(name="ours")
        message = send({"do": "extend and wait", "name": "ours"})
        worker = start_worker()
        with transaction.atomic():
            Queue.objects.filter(name="ours").update(paused_by="mine")
            [first] = worker.wait_for("extended", message.pk)
            until_somebody_waits_for_us()
            os.kill(first["pid"], signal.SIGKILL)
            worker.wait_for_output("still holds the lock")
            yield message, worker

    def _send_on_another_connection(what: dict[str, Any]) -> int:
        with aside() as other:
            return int(other.do(lambda: Message.objects.enqueue(what, queue="test")).pk)

    def test_a_lease_that_the_handler_extends_in_its_transaction_is_not_lost_while_it_runs(
        start_worker: Callable[..., Any],
    ) -> None:
        message = Message.objects.enqueue({"do": "extend and sleep", "seconds": 4}, queue="transactional-short-lease")
        worker, _ = start_worker(), start_worker()
        worker.wait_for("end", message.pk)
        wait_until(lambda: stored(message).status == "y", "the ack")
        assert stored(message).read_count == 1
        assert [note["lost"] for note in worker.notes("end", message.pk)] == [False]
