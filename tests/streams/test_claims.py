"""A stream's claims without Spark: what a query gets, what becomes of it, and who else gets none of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from django_dbqueue.claims import claim as claims
from django_dbqueue.exceptions import InvalidPipeline, StreamBusy, StreamLost
from django_dbqueue.liveness.dead_workers import Guardian
from django_dbqueue.models import Message, Queue, Stream, StreamClaim
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.streams import stream_claimer
from django_dbqueue.streams.ownership import StreamSpec
from django_dbqueue.streams.stream_delivery import planned
from tests.factories import QUEUE, MessageFactory, claimed, held, let_pause_end, stuck, written_by_sql
from tests.streams.conftest import SPEC, STREAM, Query, ids_of, letters, states

pytestmark = pytest.mark.django_db(transaction=True)
PARKED = datetime(9999, 12, 31, tzinfo=UTC)


def test_a_claim_takes_due_messages_parks_them_and_the_ledger_knows_them(query: Callable[..., Query]) -> None:
    low = MessageFactory(priority=-1)
    first = MessageFactory(max_reads=7, lease=3)
    MessageFactory(delay=60)
    MessageFactory(queue="other")
    one = query()
    assert one.claim(10) == 1
    assert ids_of(1) == [low.pk, first.pk]
    claim = StreamClaim.objects.get()
    first.refresh_from_db()
    low.refresh_from_db()
    assert (first.status, first.available_at, first.worker_id) == ("run", PARKED, None)
    assert (first.read_count, first.max_reads, first.lease_seconds) == (1, 7, 3)
    assert (low.read_count, low.max_reads, low.lease_seconds) == (1, SPEC.max_reads, SPEC.lease)
    assert first.claim_token == low.claim_token == claim.claim_token
    assert first.claimed_at is not None
    assert (claim.messages, claim.state) == (2, "open")
    assert one.claim(10) is None
    assert Stream.objects.get().last_number == 1


def test_claims_go_by_priority_then_due_time(query: Callable[..., Query]) -> None:
    ordinary = MessageFactory.create_batch(3)
    urgent = MessageFactory.create_batch(2, priority=5)
    one = query()
    one.claim(3)
    assert ids_of(1) == sorted([*(each.pk for each in urgent), ordinary[0].pk])
    one.claim(3)
    assert ids_of(2) == [each.pk for each in ordinary[1:]]


def test_a_claim_of_several_transactions_is_one_claim(
    query: Callable[..., Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_claimer, "CHUNK", 3)
    made = MessageFactory.create_batch(10)
    one = query()
    assert one.claim(8) == 1
    assert ids_of(1) == [message.pk for message in made[:8]]
    assert one.claim(8) == 2
    assert ids_of(2) == [message.pk for message in made[8:]]


def test_what_came_in_below_the_mark_is_found(query: Callable[..., Query], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_claimer, "CHUNK", 2)
    early, *_ = MessageFactory.create_batch(5)
    first = held()  # the first of them
    assert first.pk == early.pk
    one = query()
    one.claim(2)
    first.release()
    one.claim(10)
    assert early.pk in ids_of(2)


class Clock:
    now = 1_000.0

    def monotonic(self) -> float:
        return self.now


def test_a_slow_chunk_hides_a_higher_priority_for_a_second_and_no_longer(
    query: Callable[..., Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parking a large chunk takes its time, which is none that was spent on reading from the beginning."""
    clock, hold = Clock(), stream_claimer._Filling.hold
    monkeypatch.setattr(claims, "time", clock)

    def slowly(*arguments: Any) -> None:
        clock.now += 10.0
        hold(*arguments)

    monkeypatch.setattr(stream_claimer._Filling, "hold", slowly)
    MessageFactory.create_batch(4)
    one = query()
    one.claim(2)
    urgent = MessageFactory(priority=9)
    clock.now += claims.RESCAN_SECONDS
    one.claim(1)
    assert ids_of(2) == [urgent.pk]


@pytest.mark.parametrize("has_end", [False, True], ids=["until it is resumed", "with an end"])
def test_a_paused_queue_gives_nothing(query: Callable[..., Query], has_end: bool) -> None:
    MessageFactory()
    Queue.objects.pause(QUEUE, for_=3_600 if has_end else None)
    one = query()
    assert one.claim() is None
    let_pause_end() if has_end else Queue.objects.resume(QUEUE)
    assert one.claim() == 1


def test_a_message_without_reads_left_is_dead_and_not_delivered(query: Callable[..., Query]) -> None:
    spent = written_by_sql("1", read_count=5, max_reads=5)
    fine = written_by_sql("1", read_count=4, max_reads=5)
    query().claim()
    assert ids_of(1) == [fine.pk]
    spent.refresh_from_db()
    assert spent.is_dead
    assert "ReadsSpent" in str(spent.error)
    assert spent.read_count == 5


def test_an_ack_ends_what_the_claims_up_to_it_hold_and_again_changes_nothing(query: Callable[..., Query]) -> None:
    MessageFactory.create_batch(4)
    one = query()
    one.claim(2)
    one.claim(2)
    one.commit(1)
    assert letters() == ["y", "y", "run", "run"]
    one.commit(1)
    one.commit(2)
    assert letters() == ["y"] * 4
    assert states() == {1: "acked", 2: "acked"}
    assert Message.objects.done().filter(finished_at__isnull=False, live=None).count() == 4


def test_the_next_claim_is_the_one_that_is_open(query: Callable[..., Query]) -> None:
    MessageFactory.create_batch(4)
    one = query()
    assert [one.next(2), one.next(2)] == [1, 1]
    assert letters() == ["run", "run", "n", "n"]


def test_a_restart_reads_the_same_messages(query: Callable[..., Query]) -> None:
    MessageFactory.create_batch(4)
    one = query()
    number = one.next(2)
    read = one.read(number)
    one.die()
    two = query()
    assert two.next(2) == number
    assert two.read(number) == read == ids_of(number)
    two.commit(number)
    assert two.next() == 2
    assert two.read(1) == read  # an old checkpoint asks for what was acked


def test_a_restart_with_nothing_new_acks_what_its_checkpoint_has(query: Callable[..., Query]) -> None:
    MessageFactory()
    one = query()
    one.next()
    one.die()
    two = query(offset=1)
    assert two.next() is None
    assert letters() == ["y"]


def test_one_query_at_a_time_runs_a_stream(query: Callable[..., Query]) -> None:
    one = query()
    with pytest.raises(StreamBusy, match=rf"'{STREAM}' is run by .+:\d+"):
        query(patience=0)
    query(spec=StreamSpec("another", QUEUE))
    one.die()
    query()


def test_a_stream_belongs_to_one_queue(query: Callable[..., Query]) -> None:
    query().die()
    with pytest.raises(InvalidPipeline, match="consumes the queue 'tests', not 'other'"):
        query(spec=StreamSpec(STREAM, "other"))


def test_a_run_whose_stream_has_a_new_run_can_change_nothing(query: Callable[..., Query]) -> None:
    MessageFactory.create_batch(4)
    zombie = query()
    zombie.claim(2)
    Stream.objects.update(run=123, runner="elsewhere:1")  # its session was lost, and another query came
    before = (letters(), states(), Stream.objects.values().get(), list(StreamClaim.objects.values()))
    for step in (
        lambda: zombie.claim(2),
        lambda: zombie.commit(1),
        lambda: zombie.read(1),
        lambda: zombie.plan(1),
        zombie.beat,
    ):
        with pytest.raises(StreamLost, match="taken over the stream 's'"):
            step()
    assert before == (letters(), states(), Stream.objects.values().get(), list(StreamClaim.objects.values()))


def test_a_checkpoint_of_another_database_is_refused(query: Callable[..., Query]) -> None:
    MessageFactory()
    one = query()
    one.claim()
    with pytest.raises(InvalidPipeline, match=r"checkpoint is at claim 9, but the ledger .* ends at 1"):
        one.commit(9)
    with pytest.raises(InvalidPipeline, match=r"checkpoint is at claim 7, but the ledger .* ends at 1"):
        one.plan(7)
    assert letters() == ["run"]


def test_the_rescue_and_the_guardian_pass_a_streams_messages_by(query: Callable[..., Query]) -> None:
    overdue = stuck()
    MessageFactory.create_batch(2)
    one = query()
    one.claim()
    assert Message.objects.rescue() == 1
    assert Guardian(DjangoSession("default")).check() == 0
    assert letters() == ["n", "run", "run"]
    overdue.refresh_from_db()
    assert overdue.read_count == 1


def test_a_stream_takes_nothing_that_a_worker_holds(query: Callable[..., Query]) -> None:
    mine = held()
    free = MessageFactory()
    one = query()
    one.claim()
    assert ids_of(1) == [free.pk]
    assert claimed() == []
    one.commit(1)
    mine.ack()
    assert letters() == ["y", "y"]


@pytest.mark.parametrize("verb", ["requeue", "drop", "release", "reject"])
def test_an_operator_moves_one_message_and_the_rest_is_acked(
    query: Callable[..., Query], verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    moved, *others = MessageFactory.create_batch(3)
    one = query()
    number = one.next()
    row = Message.objects.filter(pk=moved.pk)
    if verb == "requeue":
        assert row.requeue() == 1
    elif verb == "drop":
        assert row.drop_all("unwanted") == 1
    else:
        assert getattr(Message.objects, verb)(list(row)) == []
    assert one.read(number) == [each.pk for each in others]
    with caplog.at_level(logging.WARNING, "django_dbqueue"):
        one.commit(number)
    assert letters() == [{"drop": "y"}.get(verb, "n"), "y", "y"]
    assert f"of the 3 messages of claim {number}, 1 had been moved by an operator" in caplog.text


def test_the_ledger_keeps_a_bounded_number_of_ended_claims(
    query: Callable[..., Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_claimer, "KEPT", 2)
    MessageFactory.create_batch(6)
    one = query()
    for number in range(1, 7):
        assert one.next(1) == number
        one.commit(number)
    assert list(states()) == [4, 5, 6]
    with pytest.raises(InvalidPipeline, match="asks again for claim 2, which the stream 's' ended long ago"):
        one.plan(2)


@pytest.mark.parametrize("claims", [0, 1, 3])
def test_a_batch_without_claims_is_empty_whatever_was_claimed_since(query: Callable[..., Query], claims: int) -> None:
    """Spark plans a new checkpoint's first batch as (0, 0) where nothing is due, and again after a kill."""
    MessageFactory.create_batch(3)
    one = query()
    for _ in range(claims):
        one.claim(1)
    for above in range(claims + 1):
        assert planned(one.connection, STREAM, one.run, above=above, upto=0) == []
    assert states() == dict.fromkeys(range(1, claims + 1), "open")
