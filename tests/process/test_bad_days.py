"""Kills, stops, freezes and cuts, on real processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from django_dbqueue.models import Message, Worker
from tests.process.conftest import wait_until
from tests.process.freezing import freeze_group
from tests.process.sessions import end_sessions, sessions

pytestmark = pytest.mark.django_db(transaction=True)


def send(queue: str = "test", /, **what: Any) -> Message:
    return Message.objects.enqueue(what, queue=queue)


def test_a_poison_message_dies_alone_and_its_neighbours_are_done(drain: Callable[..., Any]) -> None:
    Message.objects.enqueue_many([{"do": "ok"}] * 100, queue="test")
    poison = send(do="die")
    Message.objects.enqueue_many([{"do": "ok"}] * 99, queue="test")
    worker = drain()
    row = Message.objects.get(pk=poison.pk)
    assert row.is_dead
    assert (row.read_count, row.crashes) == (3, 3)
    assert "SIGKILL" in str(row.error)
    assert Message.objects.done("test").count() == 199
    assert len(worker.notes("begin", poison.pk)) == 3
    assert Message.objects.done("test").filter(read_count__gt=1).count() == 0, "no innocent was charged twice"


def test_a_handler_that_ends_the_process_with_success_is_poison_all_the_same(drain: Callable[..., Any]) -> None:
    leaving = send(do="leave")
    Message.objects.enqueue_many([{"do": "ok"}] * 9, queue="test")
    drain()
    row = Message.objects.get(pk=leaving.pk)
    assert row.is_dead
    assert row.crashes == 3
    assert Message.objects.done("test").count() == 9


def test_two_poisons_in_two_processes_leave_all_others_done(drain: Callable[..., Any]) -> None:
    Message.objects.enqueue_many([{"do": "die" if number in (30, 31) else "ok"} for number in range(100)], queue="test")
    drain("--processes", "2", "--threads", "2")
    assert Message.objects.dead("test").count() == 2
    assert Message.objects.done("test").count() == 98


def test_a_message_that_is_dropped_while_it_runs_is_reported_as_lost_and_not_as_done(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    message = send(do="until", file=str(gate))
    worker = start_worker("--max-messages", "1")
    worker.wait_for("begin", message.pk)
    assert Message.objects.filter(pk=message.pk).drop_all("not wanted any more") == 1
    gate.touch()
    assert worker.ended() == 0, worker.output
    assert "worker ended: 0 done" in worker.output
    assert f"message {message.pk}" in worker.output
    assert Message.objects.get(pk=message.pk).error == "not wanted any more"


def test_a_killed_child_is_replaced_and_its_message_comes_again(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    message = send(do="until", file=str(gate))
    waiting = [send(do="ok") for _ in range(3)]
    worker = start_worker("--batch", "10")
    [first] = worker.wait_for("begin", message.pk)
    os.kill(first["pid"], signal.SIGKILL)
    gate.touch()
    worker.wait_for("end", message.pk)
    for other in waiting:
        worker.wait_for("end", other.pk)
    wait_until(lambda: Message.objects.done("test").count() == 4, "four done")
    row = Message.objects.get(pk=message.pk)
    assert row.read_count == 2
    assert all(Message.objects.get(pk=other.pk).read_count == 1 for other in waiting)


def test_after_kill_9_of_the_whole_worker_all_is_redelivered_at_the_leases_end(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    held = [send("short-lease", do="until", file=str(gate)) for _ in range(5)]
    worker = start_worker("--threads", "2", "--batch", "5")
    worker.wait_for("begin", times=2)
    worker.signal_all(signal.SIGKILL)
    worker.ended()
    gate.touch()
    second = start_worker()
    for message in held:
        second.wait_for("end", message.pk)
    wait_until(lambda: Message.objects.done("short-lease").count() == 5, "five done")


def test_the_children_end_when_their_supervisor_is_gone(start_worker: Callable[..., Any]) -> None:
    message = send(do="ok")
    worker = start_worker()
    worker.wait_for("end", message.pk)
    worker.signal(signal.SIGKILL)
    worker.ended()
    wait_until(lambda: not Worker.objects.exists(), "the child to take its row away")


def test_a_zombie_that_wakes_after_its_lease_is_refused(start_worker: Callable[..., Any], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    message = send("short-lease", do="until", file=str(gate))
    zombie = start_worker()
    zombie.wait_for("begin", message.pk)
    freeze_group(zombie.process.pid)
    wait_until(lambda: Message.objects.stuck("short-lease").exists(), "the lease to end")
    gate.touch()
    second = start_worker()
    second.wait_for("end", message.pk)
    wait_until(lambda: Message.objects.get(pk=message.pk).status == "y", "the second run to be acked")
    winner = Message.objects.get(pk=message.pk).claim_token
    zombie.signal_all(signal.SIGCONT)
    zombie.wait_for_output("refused: its claim was lost")
    row = Message.objects.get(pk=message.pk)
    assert (row.status, row.claim_token, row.read_count) == ("y", winner, 2)


def test_leases_of_long_handlers_and_of_what_waits_behind_them_are_extended(
    start_worker: Callable[..., Any],
) -> None:
    long = send("short-lease", do="sleep", seconds=5)
    behind = [send("short-lease", do="ok") for _ in range(3)]
    worker = start_worker("--batch", "10")
    start_worker()
    worker.wait_for("end", long.pk)
    for message in behind:
        worker.wait_for("end", message.pk)
    wait_until(lambda: Message.objects.done("short-lease").count() == 4, "all done")
    assert Message.objects.filter(read_count__gt=1).count() == 0


def test_sigterm_lets_the_handler_finish_and_gives_the_rest_back_uncharged(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    running = send(do="until", file=str(gate))
    worker = start_worker("--threads", "1", "--batch", "10")
    worker.wait_for("begin", running.pk)
    waiting = [send(do="ok") for _ in range(4)]
    wait_until(lambda: Message.objects.running("test").count() > 1, "a message to be fetched ahead")
    worker.signal(signal.SIGTERM)
    wait_until(lambda: Message.objects.running("test").count() == 1, "what has not started to be released")
    gate.touch()
    assert worker.ended() == 0
    assert Message.objects.get(pk=running.pk).status == "y"
    for message in waiting:
        row = Message.objects.get(pk=message.pk)
        assert (row.status, row.read_count) == ("n", 0)
    assert not Worker.objects.exists()


@pytest.mark.parametrize("how", ["the grace ends", "a second signal"])
def test_what_is_cut_off_goes_back_charged_but_neither_failed_nor_crashed(
    start_worker: Callable[..., Any], how: str
) -> None:
    running, last = send(do="sleep", seconds=300), send(do="sleep", seconds=300)
    Message.objects.filter(pk=last.pk).update(max_reads=1)
    worker = start_worker("--threads", "2", "--grace", "0.3" if how == "the grace ends" else "300")
    worker.wait_for("begin", running.pk)
    worker.wait_for("begin", last.pk)
    worker.signal(signal.SIGTERM)
    if how == "a second signal":
        worker.wait_for_output("a second signal cuts them off")
        worker.signal(signal.SIGTERM)
    assert worker.ended() == 3
    assert f"message {running.pk} of test was cut off at attempt 1, and runs again: tests." in worker.output
    assert f"message {last.pk} of test is dead at attempt 1: Interrupted: " in worker.output
    assert "0 done, 0 failed and retried, 1 dead, 0 released, 2 cut off" in worker.output
    assert Message.objects.get(pk=last.pk).is_dead
    row = Message.objects.get(pk=running.pk)
    assert (row.status, row.read_count, row.crashes) == ("n", 1, 0)
    assert row.available_at is not None
    assert "Interrupted" in str(row.error)


def test_the_neighbours_of_one_that_hangs_are_cut_off_but_neither_failed_nor_crashed_and_the_worker_ends_well(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    in_thread, coroutine = (send(queue, do="until", file=str(tmp_path / "gate")) for queue in ("test", "coroutines"))
    options = ("--threads", "2", "--concurrency", "1", "--grace", "1")
    worker = start_worker("--queues", "test,coroutines,stuck", *options)
    for neighbour in (in_thread, coroutine):
        worker.wait_for("begin", neighbour.pk)
    Message.objects.enqueue({"file": str(tmp_path / "never")}, queue="stuck")
    for neighbour in (in_thread, coroutine):
        worker.wait_for("begin", neighbour.pk, times=2)
        row = Message.objects.get(pk=neighbour.pk)
        assert (row.read_count, row.crashes) == (2, 0)
        assert f"message {row.pk} of {row.queue} was cut off at attempt 1, and runs again" in worker.output
    (tmp_path / "gate").touch()
    wait_until(lambda: Message.objects.done().count() == 2, "both to be done")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, "it cut off nothing because it was stopped"


def test_a_bounded_worker_whose_children_die_again_and_again_before_they_begin_gives_up(
    start_worker: Callable[..., Any],
) -> None:
    worker = start_worker("--max-messages", "1")
    killed: set[int] = set()
    for _ in range(5):
        row = wait_until(lambda: Worker.objects.exclude(pid__in=killed).first(), "a child to say that it is there")
        killed.add(row.pid)
        os.kill(row.pid, signal.SIGKILL)
    assert worker.ended() == 1
    assert "before it started a message" in worker.output


def test_a_drain_waits_for_a_table_that_comes_back(start_worker: Callable[..., Any]) -> None:
    send(do="ok")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_dbqueue_queue RENAME TO hidden")
    try:
        worker = start_worker("--drain")
        worker.wait_for_output("database trouble")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE hidden RENAME TO django_dbqueue_queue")
    assert worker.ended() == 0, "a table that comes back is waited for"
    assert worker.output.index("database trouble") < worker.output.index("the database answers again")
    assert Message.objects.done("test").count() == 1


def test_a_child_that_somebody_else_stops_does_not_end_a_drain(drain: Callable[..., Any]) -> None:
    stopping = send(do="stop")
    Message.objects.enqueue_many([{"do": "ok"}] * 9, queue="test")
    worker = drain("--batch", "1")
    assert Message.objects.done("test").count() == 10
    assert len(worker.notes("begin", stopping.pk)) == 1
    assert len({note["pid"] for note in worker.notes("begin")}) == 2


def test_a_thread_that_a_handler_left_running_keeps_a_drain_no_longer_than_its_grace(drain: Callable[..., Any]) -> None:
    message = send(do="leave thread", seconds=300)
    worker = drain("--grace", "0.1")
    assert Message.objects.get(pk=message.pk).status == "y"
    assert "exiting although handlers left something running: left-running" in worker.output


def test_a_third_signal_ends_it_at_once(start_worker: Callable[..., Any]) -> None:
    running = send(do="sleep", seconds=300)
    worker = start_worker("--grace", "300")
    worker.wait_for("begin", running.pk)
    worker.signal(signal.SIGTERM)
    worker.wait_for_output("stopping")
    worker.signal(signal.SIGSTOP)  # the second and the third then arrive together
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        worker.signal(number)
    assert worker.ended() == 4


def test_sessions_killed_again_and_again_lose_nothing_and_need_no_restart(
    start_worker: Callable[..., Any], database: str
) -> None:
    """On SQLite, which has no sessions to kill, the file is locked for a while instead."""
    worker = hurt_while_it_works(start_worker, database)
    wait_until(lambda: Message.objects.done("test").count() == 300, "300 done")
    ended = [note["id"] for note in worker.notes("end")]
    assert set(ended) == set(Message.objects.values_list("pk", flat=True))
    assert worker.process.poll() is None


def hurt_while_it_works(start_worker: Callable[..., Any], database: str) -> Any:
    """Start a worker on 300 messages, and hurt it five times on the way."""
    Message.objects.enqueue_many([{"do": "sleep", "seconds": 0.01}] * 300, queue="test")
    worker = start_worker("--threads", "2", "--batch", "20")
    worker.wait_for("end", times=5)
    for round_ in range(1, 6):
        hurt(database)
        worker.wait_for("end", times=5 + 20 * round_)
    return worker


def hurt(database: str) -> None:
    if database != "sqlite":
        end_sessions(sessions())
        return
    with connection.cursor() as cursor:
        cursor.execute("BEGIN EXCLUSIVE")
        cursor.execute("ROLLBACK")
