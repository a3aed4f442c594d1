"""What the guardian takes for a sign and what not, step by step; real processes are in ``tests/process``."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.databases import server_of
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.liveness import dead_workers as guardian_module
from django_dbqueue.liveness import late_workers
from django_dbqueue.liveness.dead_workers import PERSISTS, Guardian
from django_dbqueue.models import Message, Worker
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import DjangoSession
from tests.factories import QUEUE, MessageFactory, held, row
from tests.liveness.without_beats import WORKER, ask, end, worker_without_beats
from tests.patience import patience
from tests.refusing import refusing

pytestmark = pytest.mark.django_db(transaction=True)

if settings.TEST_DATABASE != "sqlite":

    def claim(number: int, *, worker_id: int | None = WORKER, **options: Any) -> list[Message]:
        MessageFactory.create_batch(number, **options)
        messages = Claimer(Message, DjangoSession("default"), QUEUE, worker_id).claim(number, lease=600, max_reads=5)
        assert len(messages) == number
        return messages

    class Clock:
        """The guardian's clock, which a test puts forward."""

        def __init__(self) -> None:
            self._lead = 0.0

        def monotonic(self) -> float:
            return time.monotonic() + self._lead

        def put_forward(self, seconds: float) -> None:
            self._lead += seconds

    @pytest.fixture
    def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
        clock = Clock()
        monkeypatch.setattr(guardian_module, "time", clock)
        return clock

    def check_twice(guardian: Guardian, clock: Clock) -> int:
        """Look, and once more when what is gone has been gone for long enough."""
        first = guardian.check()
        clock.put_forward(PERSISTS)
        return first + guardian.check()

    def suspecting(session: BaseDatabaseWrapper, clock: Clock) -> Guardian:
        """One who saw a worker without beats and without its session, for whose verdict it is time."""
        claim(1)
        worker_without_beats(session)
        end(session)
        guardian = Guardian(DjangoSession("default"))
        guardian.check()
        clock.put_forward(PERSISTS)
        return guardian

    def check_really(guardian: Guardian, seconds: float) -> int:
        """Look again and again, by the real clock."""
        until, rescued = time.monotonic() + seconds, 0
        while time.monotonic() < until and not rescued:
            rescued += guardian.check()
            time.sleep(0.1)
        return rescued

    def states() -> list[tuple[str, int]]:
        return list(Message.objects.order_by("pk").values_list("status", "crashes"))

    def test_the_messages_of_a_worker_without_beats_stay_while_its_session_is_there_and_go_when_it_ends(
        session: BaseDatabaseWrapper,
    ) -> None:
        claim(3)
        worker_without_beats(session)
        guardian = Guardian(DjangoSession("default"))
        assert check_really(guardian, PERSISTS + 0.5) == 0
        assert not guardian.suspects
        end(session)
        assert check_really(guardian, patience(30)) == 3
        assert states() == [("n", 1)] * 3
        assert not Worker.objects.exists()

    def test_one_check_is_never_enough(session: BaseDatabaseWrapper) -> None:
        claim(1)
        worker_without_beats(session)
        end(session)
        guardian = Guardian(DjangoSession("default"))
        assert guardian.check() == 0
        assert guardian.suspects == 1
        assert states() == [("run", 0)]

    def test_a_beat_between_two_checks_starts_everything_over(session: BaseDatabaseWrapper, clock: Clock) -> None:
        guardian = suspecting(session, clock)
        Worker.objects.update(beat_at=DbNow() - timedelta(seconds=3.5))
        assert guardian.check() == 0
        assert guardian.suspects == 1
        assert states() == [("run", 0)]

    @pytest.mark.parametrize("beats", [True, False], ids=["it beats", "it has not missed three beats"])
    def test_a_worker_that_has_not_missed_three_beats_is_no_suspect_though_its_session_is_gone(
        session: BaseDatabaseWrapper, clock: Clock, beats: bool
    ) -> None:
        claim(1)
        worker = worker_without_beats(
            session, beat_at=DbNow(), late_at=DbNow(), **({} if beats else {"beat_every": 10})
        )
        end(session)
        guardian = Guardian(DjangoSession("default"))
        for _ in range(10):
            assert guardian.check() == 0
            if beats:
                Worker.objects.filter(pk=worker.pk).update(beat_at=DbNow())
            clock.put_forward(PERSISTS / 4)
        assert states() == [("run", 0)]

    def test_what_a_guardian_saw_before_its_own_session_ended_counts_no_more(
        session: BaseDatabaseWrapper, clock: Clock
    ) -> None:
        guardian = suspecting(session, clock)
        connection.close()
        assert guardian.check() == 0
        assert states() == [("run", 0)]
        assert check_twice(guardian, clock) == 1

    def test_the_worker_that_beats_while_it_is_judged_goes_first(session: BaseDatabaseWrapper, clock: Clock) -> None:
        claim(1)
        worker = worker_without_beats(session)
        end(session)
        guardian = Guardian(DjangoSession("default"))
        guardian.check()
        clock.put_forward(PERSISTS)
        beating = connection.copy()
        try:
            with beating.cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute("UPDATE django_dbqueue_worker SET held = 2 WHERE id = %s", [worker.pk])
                assert guardian.check() == 0
                cursor.execute("COMMIT")
        finally:
            beating.close()
        assert states() == [("run", 0)]
        assert guardian.check() == 1, "it was no beat after all"

    def test_a_session_that_is_back_when_the_verdict_falls_keeps_its_messages(
        session: BaseDatabaseWrapper, clock: Clock
    ) -> None:
        guardian = suspecting(session, clock)
        locks_held: list[Any] = []

        def come_back(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            """Once the guardian has locked the worker's row, the worker's session holds its named lock again."""
            result = execute(sql, params, many, context)
            if "django_dbqueue_worker" in sql and "FOR UPDATE" in sql:
                locks_held.append(ask(session, server_of(connection).sessions.take_lock(WORKER))[0])
            return result

        with connection.execute_wrapper(come_back):
            assert guardian.check() == 0
        assert len(locks_held) == 1
        assert locks_held[0]
        assert states() == [("run", 0)]
        assert Worker.objects.filter(pk=WORKER).exists()
        end(session)
        assert check_twice(guardian, clock) == 1

    @pytest.mark.parametrize(
        "columns",
        [{"server": ""}, {"server": "another server since yesterday"}, {"server": "", "session_lock": None}],
        ids=["unproven", "on another server, or before a restart", "unproven without a lock"],
    )
    def test_who_can_not_be_judged_is_not(session: BaseDatabaseWrapper, clock: Clock, columns: dict[str, Any]) -> None:
        """A second worker, dead beyond doubt, shows that the guardian did look."""
        [kept] = claim(1)
        worker_without_beats(session, **columns)
        other = connection.copy()
        worker_without_beats(other, WORKER + 1)
        [lost] = claim(1, worker_id=WORKER + 1)
        end(other, WORKER + 1)
        end(session)
        assert check_twice(Guardian(DjangoSession("default")), clock) == 1
        assert (row(kept)["status"], row(lost)["status"]) == ("run", "n")
        assert Worker.objects.get().pk == WORKER

    def test_claims_without_a_worker_are_left_to_their_leases(session: BaseDatabaseWrapper, clock: Clock) -> None:
        stranger = held(lease=600)
        [mine] = claim(1)
        worker_without_beats(session)
        end(session)
        assert check_twice(Guardian(DjangoSession("default")), clock) == 1
        assert (row(stranger)["status"], row(mine)["status"]) == ("run", "n")

    def test_a_message_whose_reads_are_spent_is_dead_and_shows_by_which_sign(
        session: BaseDatabaseWrapper, clock: Clock
    ) -> None:
        [message] = claim(1, max_reads=1)
        worker = worker_without_beats(session)
        end(session)
        assert check_twice(Guardian(DjangoSession("default")), clock) == 1
        stored = Message.objects.get(pk=message.pk)
        assert stored.is_dead
        assert stored.error.startswith("WorkerGone: ")
        assert "there:7" in stored.error
        assert f"the named lock {WORKER} of its session {worker.conn_id} is free" in stored.error

    def test_a_row_that_a_handlers_last_transaction_still_locks_is_rescued_when_that_has_ended(
        session: BaseDatabaseWrapper, clock: Clock
    ) -> None:
        locked, free = claim(2)
        worker_without_beats(session)
        end(session)
        handler = connection.copy()
        try:
            with handler.cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute("SELECT id FROM django_dbqueue_message WHERE id = %s FOR UPDATE", [locked.pk])
                guardian = Guardian(DjangoSession("default"))
                assert check_twice(guardian, clock) == 1
                assert (row(locked)["status"], row(free)["status"]) == ("run", "n")
                assert Worker.objects.exists(), "somebody must come back for the rest"
                cursor.execute("ROLLBACK")  # PostgreSQL sees the end of a session a moment after it
        finally:
            handler.close()
        assert check_twice(guardian, clock) == 1
        assert not Worker.objects.exists()

    def test_more_messages_than_go_into_one_transaction_are_all_rescued(
        session: BaseDatabaseWrapper, clock: Clock
    ) -> None:
        claim(1_201)
        worker_without_beats(session)
        end(session)
        assert check_twice(Guardian(DjangoSession("default")), clock) == 1_201
        assert not Message.objects.exclude(status="n", crashes=1).exists()

    def test_a_row_of_a_worker_that_is_held_holds_no_message(
        session: BaseDatabaseWrapper, clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        claim(2)
        worker_without_beats(session)
        end(session)
        guardian = Guardian(DjangoSession("default"))
        with refusing("DELETE", f"OLD.id = {WORKER}", table=Worker._meta.db_table):
            assert check_twice(guardian, clock) == 2
            assert (guardian.check(), guardian.suspects) == (0, 0)
        assert [status for status, _ in states()] == ["n"] * 2
        assert "left in the table, though its time is over: worker" in caplog.text

    def test_rows_that_are_held_hide_no_worker_that_died_after_theirs(
        session: BaseDatabaseWrapper, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(late_workers, "AT_ONCE", 1)
        claim(1)
        worker_without_beats(session)
        end(session)
        guardian = Guardian(DjangoSession("default"))
        with refusing("DELETE", f"OLD.id = {WORKER}", table=Worker._meta.db_table):
            assert check_twice(guardian, clock) == 1
            Worker.objects.create(**Worker.objects.values().get(pk=WORKER) | {"id": WORKER + 1, "late_at": DbNow()})
            claim(1, worker_id=WORKER + 1)
            assert check_twice(guardian, clock) == 1

    def test_a_worker_whose_rescue_was_undone_is_judged_again(
        session: BaseDatabaseWrapper, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        guardian, rescue, outages = suspecting(session, clock), Guardian._rescue_some, [OperationalError("as told")]

        def undone(self: Guardian, worker: Any) -> Any:
            with transaction.atomic():
                rescued = rescue(self, worker)
                if outages:
                    raise outages.pop()
                return rescued

        monkeypatch.setattr(Guardian, "_rescue_some", undone)
        with refusing("DELETE", f"OLD.id = {WORKER}", table=Worker._meta.db_table), pytest.raises(OperationalError):
            guardian.check()
        assert guardian.check() == 1

    def test_two_guardians_rescue_each_message_once(session: BaseDatabaseWrapper, clock: Clock) -> None:
        claim(5)
        worker_without_beats(session)
        end(session)
        one, other = Guardian(DjangoSession("default")), Guardian(DjangoSession("default"))
        one.check()
        other.check()
        clock.put_forward(PERSISTS)
        assert (one.check(), other.check()) == (5, 0)
        assert states() == [("n", 1)] * 5
