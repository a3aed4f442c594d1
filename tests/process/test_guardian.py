"""Two signs of a dead worker, and all that looks like them in a living one. SQLite has no sessions to look at."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.liveness.late_workers import BEAT_HOLDING, BEAT_IDLE
from django_dbqueue.models import Message, MessageEvent, Worker
from django_dbqueue.models.fields import DbNow
from tests.process.accounts import plain_account
from tests.process.conftest import wait_until
from tests.process.pooler import relay
from tests.process.sessions import end_sessions, sessions

pytestmark = pytest.mark.django_db(transaction=True)
TEN_MINUTES = ("--lease", "600")
WITHOUT_LOCKS = {"DJANGO_SETTINGS_MODULE": "tests.process.without_locks"}


def send(queue: str = "test", /, **what: Any) -> Message:
    return Message.objects.enqueue(what, queue=queue)


def start_holding(start_worker: Callable[..., Any], gate: Path, queue: str = "test", **environment: str) -> Any:
    """A worker that runs a message until the gate is there, with a lease of ten minutes, and its row."""
    message = send(queue, do="until", file=str(gate))
    worker = start_worker(*TEN_MINUTES, "--queues", queue, **environment)
    worker.wait_for("begin", message.pk)
    return worker, message, Worker.objects.get(queues=queue)


def kill(worker: Any) -> None:
    worker.signal_all(signal.SIGKILL)
    worker.ended()


def is_overdue(worker: Worker) -> bool:
    """Whether a worker that holds messages has missed three beats."""
    rows = Worker.objects.annotate(now=DbNow(output_field=Worker._meta.get_field("beat_at")))
    [(now, beat_at)] = rows.filter(pk=worker.pk).values_list("now", "beat_at")
    return bool((now - beat_at).total_seconds() > 3.5)


def was_not_robbed(message: Message) -> bool:
    row = Message.objects.get(pk=message.pk)
    return (row.status, row.read_count, row.crashes) == ("run", 1, 0)


def test_a_child_that_was_killed_under_its_supervisor_is_followed_by_another_long_before_its_lease_of_ten_minutes(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    message = send(do="until", file=str(tmp_path / "gate"))
    worker = start_worker(*TEN_MINUTES)
    [first] = worker.wait_for("begin", message.pk)
    lease_ends = Message.objects.get(pk=message.pk).available_at
    os.kill(first["pid"], signal.SIGKILL)
    worker.wait_for("begin", message.pk, times=2)
    row = Message.objects.get(pk=message.pk)
    assert (row.status, row.read_count, row.crashes) == ("run", 2, 1)
    assert lease_ends is not None
    assert row.claimed_at is not None
    assert row.claimed_at < lease_ends
    [event] = MessageEvent.objects.all()
    assert (event.message_id, event.kind, event.read_count) == (message.pk, "rescued", 1)
    assert str(event.detail).startswith("WorkerDied: the process that ran this message ended by signal 9")
    assert str(event.worker).endswith(f":{first['pid']}")


if settings.TEST_DATABASE != "sqlite":

    def test_a_worker_whose_children_begin_one_message_each_finds_a_dead_one_too(
        start_worker: Callable[..., Any], tmp_path: Path
    ) -> None:
        victim, message, _ = start_holding(start_worker, tmp_path / "gate")
        kill(victim)
        Message.objects.enqueue_many([{"do": "sleep", "seconds": 0.1}] * 2_000, queue="second")
        worker = start_worker("--queues", "test,second", "--child-max-messages", "1")
        wait_until(lambda: Message.objects.get(pk=message.pk).crashes == 1, "its rescue, long before its lease expires")
        assert worker.process.poll() is None

    def test_a_whole_worker_that_was_killed_is_found_by_another_long_before_its_lease_of_ten_minutes(
        start_worker: Callable[..., Any], tmp_path: Path
    ) -> None:
        other = start_worker("--queues", "async")
        wait_until(lambda: Worker.objects.filter(queues="async").exists(), "the other worker to be there")
        messages = [send(do="until", file=str(tmp_path / "gate")) for _ in range(3)]
        worker = start_worker(*TEN_MINUTES, "--queues", "test", "--threads", "3")
        worker.wait_for("begin", times=3)
        owner = Worker.objects.get(queues="test")
        for message in messages:
            row = Message.objects.get(pk=message.pk)
            assert (row.status, row.conn_id, row.worker_id) == ("run", owner.conn_id, owner.pk)
        assert owner.conn_id in sessions()
        kill(worker)
        wait_until(lambda: Message.objects.ready("test").count() == 3, "three to be due again")
        for message in messages:
            row = Message.objects.get(pk=message.pk)
            assert (row.read_count, row.crashes) == (1, 1)
            evidence = f"the named lock {owner.session_lock} of its session {owner.conn_id} is free"
            assert evidence in str(row.error)
            [event] = MessageEvent.objects.filter(message_id=message.pk)
            assert (event.kind, event.worker, event.conn_id) == ("rescued", str(owner), owner.conn_id)
            assert evidence in str(event.detail)
        assert not Worker.objects.filter(pk=owner.pk).exists()
        other.wait_for_output("session gone")

    def test_a_frozen_worker_keeps_its_messages_and_a_dead_one_alongside_it_does_not(
        start_worker: Callable[..., Any], start_guardian: Callable[..., Any], tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        guardian = start_guardian("--watch")
        frozen, kept, row = start_holding(start_worker, gate)
        frozen.signal_all(signal.SIGSTOP)
        dead, lost, _ = start_holding(start_worker, gate, "short-lease")
        wait_until(lambda: is_overdue(row), "the frozen worker to have missed three beats")
        kill(dead)
        wait_until(lambda: Message.objects.ready("short-lease").exists(), "the dead worker's message to be due again")
        guardian.wait_for_output("session gone")
        assert was_not_robbed(kept)
        gate.touch()
        frozen.signal_all(signal.SIGCONT)
        wait_until(lambda: Message.objects.get(pk=kept.pk).status == "y", "the frozen worker's message to be done")
        assert len(frozen.notes("begin", kept.pk)) == 1
        assert Message.objects.get(pk=lost.pk).crashes == 1

    def test_a_handler_that_lets_no_other_thread_run_for_seconds_is_not_robbed(
        start_worker: Callable[..., Any], start_guardian: Callable[..., Any]
    ) -> None:
        guardian = start_guardian("--watch", "--interval", "0.1")
        guardian.wait_for_output("Watching")
        message = send(do="hog", seconds=7)
        worker = start_worker(*TEN_MINUTES, "--queues", "test")
        worker.wait_for("begin", message.pk)
        row = Worker.objects.get()
        wait_until(lambda: is_overdue(row), "three beats to be missed")
        worker.wait_for("end", message.pk)
        wait_until(lambda: Message.objects.done("test").exists(), "the message to be done")
        assert Message.objects.get(pk=message.pk).read_count == 1
        assert "session gone" not in guardian.output

    @pytest.mark.slow
    def test_a_live_worker_whose_sessions_are_killed_again_and_again_is_not_robbed_and_acks_nothing_twice(
        start_worker: Callable[..., Any], start_guardian: Callable[..., Any], tmp_path: Path
    ) -> None:
        guardian = start_guardian("--watch", "--interval", "0.1")
        guardian.wait_for_output("Watching")
        spared = sessions()
        gate = tmp_path / "gate"
        long = send(do="until", file=str(gate))
        worker = start_worker(*TEN_MINUTES, "--queues", "test", "--threads", "2", "--batch", "5")
        worker.wait_for("begin", long.pk)
        Message.objects.enqueue_many([{"do": "sleep", "seconds": 0.02}] * 200, queue="test")
        dice, until = random.Random(1), time.monotonic() + 12
        while time.monotonic() < until:
            end_sessions(sessions() - spared)
            time.sleep(dice.uniform(0.1, 0.5))
        gate.touch()
        wait_until(lambda: Message.objects.done("test").count() == 201, "all to be done")
        begun = [note["id"] for note in worker.notes("begin")]
        assert len(begun) == len(set(begun)) == 201
        assert "session gone" not in guardian.output
        assert set(Message.objects.values_list("crashes", flat=True)) == {0}
        assert guardian.process.poll() is None
        kill(worker)
        assert sessions() >= spared, "the guardian had one session all the time"

    def test_an_account_without_privileges_robs_no_frozen_worker_of_another_account_and_finds_it_when_dead(
        start_worker: Callable[..., Any], start_guardian: Callable[..., Any], tmp_path: Path
    ) -> None:
        worker, message, row = start_holding(start_worker, tmp_path / "gate")
        worker.signal_all(signal.SIGSTOP)
        wait_until(lambda: is_overdue(row), "three beats to be missed")
        with plain_account() as account:
            assert start_guardian(**account).ended() == 0
            assert was_not_robbed(message)
            kill(worker)
            guardian = start_guardian(**account)
            assert guardian.ended() == 0
            assert f"the named lock {row.session_lock} of its session {row.conn_id} is free" in guardian.output
        assert Message.objects.get(pk=message.pk).crashes == 1

    def test_the_list_of_sessions_serves_where_there_are_no_locks_and_only_who_sees_it_whole(
        start_worker: Callable[..., Any], start_guardian: Callable[..., Any], tmp_path: Path, database: str
    ) -> None:
        worker, message, row = start_holding(start_worker, tmp_path / "gate", **WITHOUT_LOCKS)
        assert (row.session_lock, bool(row.server)) == (None, True)
        worker.signal_all(signal.SIGSTOP)
        wait_until(lambda: is_overdue(row), "three beats to be missed")
        with plain_account() as account:
            for environment in ({}, account):
                assert start_guardian(**environment).ended() == 0
                assert was_not_robbed(message)
            kill(worker)
            plain = start_guardian(**account)
            assert plain.ended() == 0
        if database == "postgres":  # shows the ids of all sessions to everybody
            guardian = plain
        else:
            assert "GRANT PROCESS" in plain.output
            assert was_not_robbed(message), "who can't see the list whole stays off"
            guardian = start_guardian()
            assert guardian.ended() == 0
        assert "Blind" not in guardian.output
        assert f"its session {row.conn_id} is not in the server's list" in guardian.output
        assert Message.objects.get(pk=message.pk).crashes == 1

    def test_a_worker_that_waits_for_work_is_still_watched_from_its_first_message_on(
        start_worker: Callable[..., Any], start_guardian: Callable[..., Any], tmp_path: Path
    ) -> None:
        guardian = start_guardian("--watch")
        worker = start_worker(*TEN_MINUTES, "--queues", "test")
        wait_until(lambda: Worker.objects.filter(beat_every__gt=1).exists(), "the worker to beat slowly")
        message = send(do="until", file=str(tmp_path / "gate"))
        worker.wait_for("begin", message.pk)
        row = Worker.objects.get()
        assert row.beat_every == BEAT_HOLDING, "it promised quick beats before it began"
        wait_until(lambda: Worker.objects.exclude(beat_at=row.beat_at).exists(), "the next beat")
        gap = (Worker.objects.get().beat_at - row.beat_at).total_seconds()
        assert gap < 0.8 * BEAT_IDLE, "it beats on as one who has nothing to lose"
        kill(worker)
        guardian.wait_for_output("session gone")

    def test_a_worker_behind_a_pooler_reports_once_that_its_life_can_not_be_seen_and_is_not_judged(
        start_worker: Callable[..., Any], start_guardian: Callable[..., Any], tmp_path: Path
    ) -> None:
        """A second worker, that connects directly and dies, shows that the guardian did look."""
        with relay(os.environ["DBQUEUE_TEST_URL"]) as url:
            pooled = {"DBQUEUE_TEST_URL": url, "PGSSLMODE": "disable", "PGGSSENCMODE": "disable"}
            hidden, kept, row = start_holding(start_worker, tmp_path / "gate", **pooled)
            assert (row.server, row.session_lock) == ("", None)
            assert row.conn_id in sessions(), "what stands in the rows is the session that works"
            before = Worker.objects.get().beat_at
            wait_until(lambda: Worker.objects.get().beat_at > before, "another beat")
            assert (
                hidden.output.count(
                    "nothing outside can see whether this worker is alive: the connection was opened as"
                )
                == 1
            )
            kill(hidden)
        seen, lost, _ = start_holding(start_worker, tmp_path / "gate", "second")
        wait_until(lambda: is_overdue(row), "three beats to be missed")
        kill(seen)
        guardian = start_guardian("--watch")
        guardian.wait_for_output("session gone")
        assert "1 worker can't prove its session" in guardian.output
        assert Message.objects.get(pk=lost.pk).crashes == 1
        assert was_not_robbed(kept)

    @contextmanager
    def refusing_named_locks() -> Iterator[dict[str, str]]:
        """The environment in which a worker starts that can't take one, as on some clusters."""
        if connection.vendor == "mysql":
            yield {"DJANGO_SETTINGS_MODULE": "tests.process.strict_cluster_settings"}
            return
        function = "FUNCTION pg_try_advisory_lock(bigint)"
        with plain_account() as account, connection.cursor() as cursor:
            cursor.execute(f"REVOKE EXECUTE ON {function} FROM PUBLIC")
            try:
                yield account
            finally:
                cursor.execute(f"GRANT EXECUTE ON {function} TO PUBLIC")

    def test_where_the_server_refuses_named_locks_the_list_of_sessions_serves(
        start_worker: Callable[..., Any], start_guardian: Callable[..., Any], tmp_path: Path
    ) -> None:
        with refusing_named_locks() as environment:
            worker, message, row = start_holding(start_worker, tmp_path / "gate", **environment)
            assert (row.session_lock, bool(row.server)) == (None, True)
            assert "nothing outside can see" not in worker.output
            kill(worker)
            guardian = start_guardian("--watch")
            guardian.wait_for_output(f"its session {row.conn_id} is not in the server's list")
            assert Message.objects.get(pk=message.pk).crashes == 1
