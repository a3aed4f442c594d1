"""``task_finished`` is sent when the end of a task is committed: once, whoever ended it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction

from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.tasks.sources import task_consumer
from django_dbqueue.testing import run_consumers
from django_dbqueue.worker.aftermath import settle_after
from django_dbqueue.worker.board import Board
from tests.process.conftest import wait_until
from tests.tasks.hearing import hearing

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def heard() -> Iterator[list[tuple[str, str, str]]]:
    """Ends that were told: the task's name, its status, and what the database said of its result at that moment."""
    found: list[tuple[str, str, str]] = []

    def receiver(sender: type, task_result: Any, **_: Any) -> None:
        stored = sender("default", {}).get_result(task_result.id)
        found.append((task_result.task.name, str(task_result.status), str(stored.status)))

    with hearing(receiver, "task_finished"):
        yield found


def run(**how: Any) -> Any:
    return run_consumers("default", on_error="collect", **how)


def test_the_end_is_committed_when_it_is_signalled(jobs: Any, heard: list[Any]) -> None:
    jobs.add.enqueue(1, 2)
    jobs.pause.enqueue("one")
    jobs.nothing.enqueue()
    jobs.turn_away.enqueue("no")
    run()
    done = [(name, "SUCCESSFUL", "SUCCESSFUL") for name in ("add", "pause", "nothing")]
    assert sorted(heard) == sorted([*done, ("turn_away", "FAILED", "FAILED")])


def test_a_failure_that_is_retried_is_no_end(jobs: Any, heard: list[Any]) -> None:
    jobs.fail.enqueue()
    run()
    assert heard == []
    run(with_delayed=True)
    assert heard == [("fail", "FAILED", "FAILED")]


@pytest.mark.parametrize("name", ["add", "pause"])
def test_who_lost_the_claim_signals_nothing(
    jobs: Any, heard: list[Any], name: str, lose_the_claim: Callable[[Any], None]
) -> None:
    result = jobs.pause.enqueue("one") if name == "pause" else jobs.add.enqueue(1, 2)
    lose_the_claim(result)
    run()
    assert heard == []


def expire(jobs: Any) -> None:
    jobs.add.apply_async((1, 2), expires=-1)
    run()


def drop(jobs: Any) -> None:
    jobs.add.enqueue(1, 2)
    assert Message.objects.all().drop_all("not needed") == 1


def reject(jobs: Any) -> None:
    jobs.add.enqueue(1, 2)
    assert Message.objects.all().reject_waiting("not wanted") == 1


def drop_by_key(jobs: Any) -> None:
    jobs.add.enqueue(1, 2)
    headers = Message.objects.get().headers
    Message.objects.all().drop_all("not this one")
    Message.objects.enqueue({"args": [1, 2], "kwargs": {}}, headers=headers, key="k")
    assert Message.objects.drop("default", "k")


def let_it_be_rescued(jobs: Any) -> None:
    jobs.add.enqueue(1, 2)
    Message.objects.update(max_reads=1)
    Message.objects.claim(1, lease=0.001)
    wait_until(lambda: Message.objects.rescue("default") == 1, "its lease is over")


def let_it_have_no_reads(jobs: Any) -> None:
    jobs.add.enqueue(1, 2)
    Message.objects.update(max_reads=1, read_count=1)
    assert Message.objects.claim(1) == []


def reject_and_drop(jobs: Any) -> None:
    reject(jobs)
    assert Message.objects.all().drop_all("forgotten") == 1


@pytest.mark.parametrize("end", [expire, drop, reject, reject_and_drop, let_it_be_rescued, let_it_have_no_reads])
def test_an_end_that_is_no_handlers_is_signalled_too(jobs: Any, heard: list[Any], end: Callable[[Any], object]) -> None:
    end(jobs)
    assert heard == [("add", "FAILED", "FAILED")]


def test_what_is_dropped_by_its_key_is_signalled(jobs: Any, heard: list[Any]) -> None:
    drop_by_key(jobs)
    assert heard == [("add", "FAILED", "FAILED")] * 2


def test_a_drop_is_signalled_when_its_transaction_commits_and_not_at_all_if_it_is_rolled_back(
    jobs: Any, heard: list[Any]
) -> None:
    jobs.add.enqueue(1, 2)
    with transaction.atomic():
        Message.objects.all().drop_all("for now")
        transaction.set_rollback(True)
    assert heard == []
    with transaction.atomic():
        Message.objects.all().drop_all("at last")
        assert heard == []
    assert heard == [("add", "FAILED", "FAILED")]


def test_what_a_supervisor_acks_after_its_childs_death_is_signalled(jobs: Any, heard: list[Any]) -> None:
    jobs.nothing.enqueue()
    jobs.end_the_process.enqueue()
    returned, killed = Message.objects.claim(2)
    board = Board(2)
    board.stop_clock(board.occupy(returned.claim), succeeded=True, has_result=False)
    board.occupy(killed.claim)
    settle_after(session_of("default"), 7, {"default": task_consumer("default")}, board, how="SIGKILL")
    assert sorted(heard) == [("end_the_process", "FAILED", "FAILED"), ("nothing", "SUCCESSFUL", "SUCCESSFUL")]


def test_of_a_commit_whose_reply_was_lost_the_stored_result_is_signalled(
    jobs: Any, heard: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_dbqueue.tasks import task_adapter as runner

    in_one_commit = runner._in_one_commit

    def lose_the_reply(run: Any) -> Any:
        in_one_commit(run)
        run.delivery.message.settled = False
        raise ConnectionError("no reply")

    monkeypatch.setattr(runner, "_in_one_commit", lose_the_reply)
    jobs.pause.enqueue("one")
    run()
    assert heard == [("pause", "SUCCESSFUL", "SUCCESSFUL")]


def test_messages_that_are_no_tasks_and_tasks_that_are_unknown_here_are_not_signalled(heard: list[Any]) -> None:
    Message.objects.enqueue({})
    Message.objects.enqueue({}, headers={"dbqueue.task": "no.such.task"})
    Message.objects.all().drop_all("both")
    assert heard == []


def test_a_receiver_that_raises_or_exits_undoes_no_end(jobs: Any, caplog: pytest.LogCaptureFixture) -> None:
    def receiver(**_: Any) -> None:
        raise SystemExit(3)

    with hearing(receiver, "task_finished"):
        result = jobs.add.enqueue(1, 2)
        run()
    result.refresh()
    assert result.return_value == 3
    assert "telling of it failed" in caplog.text
    assert session_of("default").connection.is_usable()
