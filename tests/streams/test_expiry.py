"""What becomes of claims that nobody keeps alive: held, or released; by hand, or by whoever does the rescue."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from django_dbqueue.conf import PER_QUEUE
from django_dbqueue.exceptions import InvalidPipeline, StreamBusy, StreamLost
from django_dbqueue.lifecycle import expired_streams
from django_dbqueue.lifecycle.expired_streams import requeue_expired
from django_dbqueue.models import Message, Stream, StreamClaim
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.signals import message_died, message_rescued
from django_dbqueue.streams import stream_list, stream_release
from django_dbqueue.streams.backlog import Backlog
from django_dbqueue.streams.ownership import REQUEUE, StreamSpec, is_running
from django_dbqueue.streams.stream_release import forget_stream, release_stream
from django_dbqueue.worker.maintenance import Maintenance
from tests.factories import QUEUE, MessageFactory, claimed
from tests.process.conftest import wait_until
from tests.streams.conftest import SPEC, STREAM, Query, let_leases_end, letters, states

pytestmark = pytest.mark.django_db(transaction=True)
GIVING_BACK = replace(SPEC, on_expired=REQUEUE)
HERE = DjangoSession("default")


def maintain() -> None:
    """What a worker does once a second."""
    Maintenance(session_of("default"), (QUEUE,)).run(0.0)


def test_a_stream_allows_as_many_reads_as_the_settings_do_where_nothing_is_set() -> None:
    assert StreamSpec("s", "q").max_reads == PER_QUEUE["max_reads"]


def test_a_claim_that_is_held_waits_for_its_stream_however_long(query: Callable[..., Query]) -> None:
    MessageFactory.create_batch(3)
    one = query()
    one.next()
    let_leases_end()
    maintain()
    assert Message.objects.rescue() == 0
    assert claimed() == []
    assert letters() == ["run"] * 3
    one.commit(1)
    assert letters() == ["y"] * 3


def test_a_claim_to_be_requeued_goes_back_charged_and_as_a_crash(query: Callable[..., Query]) -> None:
    spent, *others = [MessageFactory(max_reads=1), *MessageFactory.create_batch(2)]
    one = query(spec=GIVING_BACK)
    one.next()
    maintain()
    assert letters() == ["run"] * 3  # its lease is not over
    let_leases_end()
    rescued: list[Any] = []
    died: list[Any] = []

    def hear_rescued(*, message_ids: list[int], evidence: str, **_: Any) -> None:
        rescued.append((message_ids, evidence))

    def hear_died(*, message_id: int, **_: Any) -> None:
        died.append(message_id)

    message_rescued.connect(hear_rescued)
    message_died.connect(hear_died)
    try:
        maintain()
    finally:
        message_rescued.disconnect(hear_rescued)
        message_died.disconnect(hear_died)
    assert rescued == [([spent.pk, *(each.pk for each in others)], "the lease of claim 1 of stream s has expired")]
    assert died == [spent.pk]
    spent.refresh_from_db()
    assert spent.is_dead
    back = Message.objects.ready().values_list("read_count", "crashes", "worker_id", "conn_id")
    assert list(back) == [(1, 1, None, None)] * 2
    assert states() == {1: "freed"}
    maintain()
    assert len(claimed()) == 2


def test_the_stream_whose_claim_was_released_acks_nothing_of_it_and_reports_it(
    query: Callable[..., Query], caplog: pytest.LogCaptureFixture
) -> None:
    MessageFactory.create_batch(2)
    one = query(spec=GIVING_BACK)
    number = one.next()
    let_leases_end()
    assert requeue_expired(Message, DjangoSession("default")) == 2
    rival = Message.objects.claim(1, queue=QUEUE)
    assert one.read(number) == []
    one.commit(number)
    assert letters() == ["run", "n"]
    assert [message.ack() for message in rival] == [None]
    assert one.next() == 2
    one.commit(2)
    assert letters() == ["y", "y"]


def test_a_beat_keeps_the_claims_of_a_stream_from_being_released(query: Callable[..., Query]) -> None:
    MessageFactory()
    one = query(spec=GIVING_BACK)
    one.next()
    let_leases_end()
    one.beat()
    maintain()
    assert letters() == ["run"]


def test_what_a_killed_one_began_to_release_the_next_one_finishes(
    query: Callable[..., Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_release, "PART", 2)
    MessageFactory.create_batch(5)
    one = query(spec=GIVING_BACK)
    one.next()
    let_leases_end()
    monkeypatch.setattr(expired_streams, "AT_ONCE", 2)
    assert requeue_expired(Message, DjangoSession("default")) == 2
    assert states() == {1: "freeing"}
    assert one.read(1) == []
    one.die()
    wait_until(lambda: not is_running(HERE, STREAM), "the server to see the session's end")
    with pytest.raises(InvalidPipeline, match="holds messages"):
        forget_stream(HERE, STREAM)
    assert [requeue_expired(Message, DjangoSession("default")) for _ in range(4)] == [2, 1, 0, 0]
    assert states() == {1: "freed"}
    assert letters() == ["n"] * 5


def test_released_by_hand_goes_back_uncharged(query: Callable[..., Query]) -> None:
    MessageFactory.create_batch(3)
    one = query()
    one.next(2)
    one.commit(1)
    one.next(2)
    with pytest.raises(StreamBusy, match="stop it first"):
        release_stream(HERE, STREAM)
    assert letters() == ["y", "y", "run"]
    one.die()
    two = query()
    two.die()
    wait_until(lambda: not is_running(HERE, STREAM), "the server to see the session's end")
    assert release_stream(HERE, STREAM) == 1
    assert letters() == ["y", "y", "n"]
    assert Message.objects.ready().get().read_count == 0
    three = query()
    assert three.plan(2) == []  # its checkpoint asks for the batch again, and gets an empty one
    three.offset = 2
    assert three.next() == 3


def test_released_by_force_a_living_query_is_ended(query: Callable[..., Query]) -> None:
    MessageFactory.create_batch(2)
    one = query()
    one.next()
    assert release_stream(HERE, STREAM, force=True) == 2
    for step in (one.beat, one.next, lambda: one.read(1), lambda: one.commit(1)):
        with pytest.raises(StreamLost):
            step()
    assert letters() == ["n", "n"]


def test_a_stream_that_is_not_there_can_not_be_released() -> None:
    with pytest.raises(InvalidPipeline, match="There is no stream 'nobody'"):
        release_stream(HERE, "nobody")


def test_streams_are_listed_with_what_they_hold_and_forgotten_when_they_hold_nothing(
    query: Callable[..., Query],
) -> None:
    MessageFactory.create_batch(3)
    one = query()
    one.next()
    MessageFactory()
    [here] = stream_list.streams(HERE)
    assert (here.name, here.queue, here.claims, here.messages, here.overdue) == (STREAM, QUEUE, 1, 3, 0)
    assert here.is_running
    assert here.backlog == Backlog(1, 0, is_capped=False)
    let_leases_end()
    assert stream_list.streams(HERE)[0].overdue == 1
    with pytest.raises(StreamBusy):
        forget_stream(HERE, STREAM)
    release_stream(HERE, STREAM, force=True)
    one.connection.close()
    wait_until(lambda: not stream_list.streams(HERE)[0].is_running, "the server to see the session's end")
    forget_stream(HERE, STREAM)
    assert not Stream.objects.exists()
    assert not StreamClaim.objects.exists()


def test_what_an_overdue_claim_holds_is_stuck_and_no_longer_running(query: Callable[..., Query]) -> None:
    MessageFactory.create_batch(2)
    query().next()
    assert (Message.objects.running().count(), Message.objects.stuck().count()) == (2, 0)
    let_leases_end()
    assert (Message.objects.running().count(), Message.objects.stuck().count()) == (0, 2)
    assert len(Message.objects.peek(QUEUE, state="stuck")) == 2
    assert Message.objects.stuck().requeue() == 2
    assert letters() == ["n", "n"]


def test_logs_name_what_was_released(query: Callable[..., Query], caplog: pytest.LogCaptureFixture) -> None:
    MessageFactory()
    query(spec=GIVING_BACK).next()
    let_leases_end()
    with caplog.at_level(logging.WARNING, "django_dbqueue"):
        requeue_expired(Message, DjangoSession("default"))
    assert "1 message of tests rescued (the lease of claim 1 of stream s has expired)" in caplog.text
