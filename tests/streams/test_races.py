"""Races of a stream's steps, on connections of their own: who waits, who passes by, and who has lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from django.db import connection

from django_dbqueue.exceptions import StreamLost
from django_dbqueue.lifecycle.expired_streams import requeue_expired
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.streams import ownership
from django_dbqueue.streams.id_ranges import size_of
from django_dbqueue.streams.ownership import REQUEUE
from django_dbqueue.streams.stream_claimer import StreamClaimer
from django_dbqueue.streams.stream_delivery import StreamDelivery, deliver
from django_dbqueue.streams.stream_release import release_stream
from tests.concurrency.contenders import claim_in_transaction, rescue
from tests.concurrency.steps import meet
from tests.factories import MessageFactory
from tests.streams.conftest import SPEC, STREAM, Query, ids_of, let_leases_end, letters, states

pytestmark = pytest.mark.django_db(transaction=True)
HERE = DjangoSession("default")
GIVING_BACK = replace(SPEC, on_expired=REQUEUE)


def steps_of(query: Query) -> tuple[Callable[[], object], Callable[[], object], Callable[[], object]]:
    """What this query's run does, on the connection of whoever calls it: claim, ack, beat."""
    claimer = StreamClaimer(query.spec, query.run)
    return (
        partial(claimer.claim, HERE, 2),
        partial(claimer.ack, HERE, 1),
        partial(ownership.beat, HERE, query.spec, query.run),
    )


def requeue() -> int:
    return requeue_expired(Message, DjangoSession("default"))


def test_a_stream_that_claims_alongside_a_worker_passes_its_messages_by(query: Callable[..., Query]) -> None:
    first, *others = MessageFactory.create_batch(3)
    claim, *_ = steps_of(query())
    met = meet(claim_in_transaction, claim, waits=False)
    assert [message.pk for message in met.first] == [first.pk]
    assert ids_of(1) == [message.pk for message in others]


def test_a_worker_that_claims_alongside_a_stream_passes_its_messages_by(query: Callable[..., Query]) -> None:
    made = MessageFactory.create_batch(3)
    claim, *_ = steps_of(query())
    met = meet(claim, claim_in_transaction, waits=False)
    assert ids_of(1) == [message.pk for message in made[:2]]
    assert [message.pk for message in met.second] == [made[2].pk]


def test_a_rescue_alongside_a_stream_that_claims_takes_nothing(query: Callable[..., Query]) -> None:
    MessageFactory.create_batch(2)
    claim, *_ = steps_of(query())
    assert meet(claim, rescue, waits=False).second == 0
    assert letters() == ["run", "run"]


@pytest.mark.parametrize(
    ("first", "rescued", "left"),
    [("ack", 0, "y"), ("beat", 0, "run"), ("requeue", 2, "n")],
    ids=["an ack is passed by", "a beat is passed by", "an ack comes second, waits, and acks nothing"],
)
def test_of_who_gives_back_and_the_runner_the_first_wins(
    query: Callable[..., Query], first: str, rescued: int, left: str
) -> None:
    MessageFactory.create_batch(2)
    one = query(spec=GIVING_BACK)
    one.next()
    let_leases_end()
    _claim, ack, beat = steps_of(one)
    if first == "requeue":
        assert meet(requeue, ack, waits=connection.vendor != "sqlite").first == rescued
    else:
        assert meet({"ack": ack, "beat": beat}[first], requeue, waits=False).second == rescued
    assert letters() == [left, left]
    if first != "beat":
        assert states() == {1: "acked" if first == "ack" else "freed"}


def test_an_ack_alongside_an_operator_acks_what_he_left(query: Callable[..., Query]) -> None:
    moved, _other = MessageFactory.create_batch(2)
    one = query()
    one.next()
    _claim, ack, _beat = steps_of(one)
    operator = Message.objects.filter(pk=moved.pk).requeue
    assert meet(operator, ack, waits=connection.vendor != "sqlite").first == 1
    assert letters() == ["n", "y"]


def test_an_operator_during_an_ack_finds_the_message_done(query: Callable[..., Query]) -> None:
    moved, _other = MessageFactory.create_batch(2)
    one = query()
    one.next()
    stale = list(Message.objects.filter(pk=moved.pk))
    _claim, ack, _beat = steps_of(one)
    met = meet(ack, lambda: Message.objects.release(stale), waits=connection.vendor != "sqlite")
    assert met.second == stale
    assert letters() == ["y", "y"]


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_step_during_a_release_by_force_waits_and_is_refused(query: Callable[..., Query], step: int) -> None:
    MessageFactory.create_batch(4)
    one = query()
    one.next(2)
    met = meet(
        lambda: release_stream(HERE, STREAM, force=True), steps_of(one)[step], waits=connection.vendor != "sqlite"
    )
    assert met.first == 2
    assert isinstance(met.second, StreamLost)
    assert letters() == ["n"] * 4


def test_of_two_tasks_at_a_third_attempt_one_splits_and_the_other_reads_what_is_left(
    query: Callable[..., Query],
) -> None:
    MessageFactory.create_batch(32)
    for _ in range(2):
        query().die_reading()
    run = query().run
    read = partial(deliver, HERE, SPEC, run, 1)
    met = meet(read, read, waits=connection.vendor != "sqlite")
    assert isinstance(met.first, StreamDelivery)
    assert met.first == met.second
    assert size_of(met.first.ranges) == 2
    assert len(states()) == 16
