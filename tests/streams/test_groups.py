"""Groups in a stream: it gets the first of each, and the next one is due when the batch is acknowledged (P18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.conf import settings as django_settings
from django.db import transaction

from django_dbqueue.databases.session import Session
from django_dbqueue.models import Group, Line, Message, Ticket
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.streams import stream_claimer, stream_release
from django_dbqueue.streams.ownership import REQUEUE, StreamSpec
from django_dbqueue.streams.stream_lanes import LaneRules
from django_dbqueue.worker.keepers import Keepers
from tests.factories import QUEUE, MessageFactory
from tests.streams.conftest import STREAM, Query, ids_of, let_leases_end

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper


pytestmark = pytest.mark.django_db(transaction=True)


def send(group: str | None, count: int = 1, **options: object) -> list[int]:
    return [MessageFactory(group=group, **options).pk for _ in range(count)]


def tickets() -> set[int]:
    return set(Ticket.objects.values_list("message_id", flat=True))


def waiting() -> set[int]:
    return set(Line.objects.values_list("message_id", flat=True))


def claimed_ids() -> list[int]:
    return [message.pk for message in Message.objects.claim(100, queue=QUEUE)]


def drained(one: Query) -> list[list[int]]:
    """What each batch of a query that never fails delivers."""
    found = []
    while (number := one.next()) is not None:
        found.append(one.read(number))
        one.commit(number)
    return found


def test_each_batch_has_the_first_of_each_group_and_all_that_have_none(query: Callable[..., Query]) -> None:
    a, b, none = send("a", 3), send("b", 2), send(None, 2)
    assert drained(query()) == [sorted([a[0], b[0], *none]), sorted([a[1], b[1]]), [a[2]]]
    assert set(Message.objects.values_list("status", flat=True)) == {"y"}
    assert tickets() == waiting() == set()


def test_what_is_claimed_and_not_acked_holds_its_group(query: Callable[..., Query]) -> None:
    a = send("a", 2)
    one = query()
    number = one.next()
    assert number is not None
    assert one.read(number) == [a[0]]
    assert one.claim() is None
    assert claimed_ids() == []
    assert tickets() == {a[0]}


def test_as_many_of_a_group_come_at_once_as_the_query_or_the_group_allows(query: Callable[..., Query]) -> None:
    Group.objects.limit(QUEUE, "wide", 3)
    wide, two = send("wide", 4), send("two", 1)
    with transaction.atomic():
        two += [MessageFactory(group="two").pk for _ in range(4)]
    one = query(spec=StreamSpec(STREAM, QUEUE, rules=LaneRules(group_limit=2)))
    batches = drained(one)
    assert batches[0] == sorted([*wide[:3], two[0]])
    assert sorted(number for batch in batches for number in batch) == sorted(wide + two)
    assert all(len(set(batch) & set(two)) <= 2 for batch in batches)


def test_a_batch_of_many_groups_is_one_commit_and_all_of_them_go_on(
    query: Callable[..., Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_claimer, "CHUNK", 7)
    ids = {group: send(f"g{group}", 2) for group in range(40)}
    one = query()
    number = one.next(1_000)
    assert number is not None
    one.read(number)
    one.commit(number)
    assert (
        tickets()
        == {second for _, second in ids.values()}
        == set(Message.objects.ready(QUEUE).values_list("pk", flat=True))
    )
    assert waiting() == set()


def test_an_ack_by_another_run_than_the_one_that_claimed_hands_on_too(query: Callable[..., Query]) -> None:
    a = send("a", 2)
    one = query()
    number = one.next()
    assert number is not None
    one.die()
    two = query()
    assert two.read(number) == [a[0]]
    two.commit(number)
    assert tickets() == {a[1]}


def test_an_ack_of_no_groups_asks_nothing_about_them(
    query: Callable[..., Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    send(None, 3)
    one = query()
    sent: list[str] = []

    def note(verb: str) -> None:
        real = getattr(one.connection, verb)
        monkeypatch.setattr(one.connection, verb, lambda statement: (sent.append(statement.sql), real(statement))[1])

    note("fetch")
    note("run")
    number = one.next()
    assert number is not None
    one.read(number)
    one.commit(number)
    assert len(sent) > 5
    assert [sql for sql in sent if "_line" in sql or "_ticket" in sql or "lane IS NOT NULL" in sql] == []


def fail(query: Callable[..., Query], number: int, spec: StreamSpec) -> Query:
    """A run that reads a claim, and whose batch fails."""
    one = query(spec=spec)
    one.plan(number)
    one.read(number)
    one.die()
    return one


@pytest.mark.parametrize("holds", [False, True])
def test_a_message_that_dies_in_its_stream_lets_its_group_go_on_or_holds_it(
    query: Callable[..., Query], settings: SettingsWrapper, *, holds: bool
) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"on_dead": "hold" if holds else "next"}}}
    a = send("a", 2)
    spec = StreamSpec(STREAM, QUEUE, max_reads=1, rules=LaneRules(holds_dead=holds))
    one = query(spec=spec)
    assert one.next() == 1
    one.read(1)
    one.die()
    two = query(spec=spec)
    assert two.read(1) == []
    assert Message.objects.dead(QUEUE).get().pk == a[0]
    two.commit(1)
    Keepers(session_of("default")).turn()
    assert tickets() == {a[0] if holds else a[1]}
    assert two.claim() == (None if holds else 2)


def test_a_row_without_reads_left_is_buried_and_its_group_goes_on(query: Callable[..., Query]) -> None:
    a = send("a", 2)
    Message.objects.filter(pk=a[0]).update(read_count=3, max_reads=3)
    one = query()
    assert one.claim() is None or ids_of(1) == [a[1]]
    assert one.next() == 1
    assert ids_of(1) == [a[1]]
    assert tickets() == {a[1]}


@pytest.mark.parametrize("max_reads", [1, 5])
def test_an_expired_claim_gives_its_places_back_or_hands_them_on(query: Callable[..., Query], max_reads: int) -> None:
    a, b = send("a", 2), send("b", 2)
    one = query(spec=StreamSpec(STREAM, QUEUE, on_expired=REQUEUE, max_reads=max_reads))
    assert one.next() == 1
    one.die()
    let_leases_end()
    assert Message.objects.rescue() == 2
    firsts = {a[0], b[0]} if max_reads > 1 else {a[1], b[1]}
    assert tickets() == firsts == set(claimed_ids())


def test_a_released_claim_gives_its_places_back(query: Callable[..., Query]) -> None:
    a = send("a", 2)
    one = query()
    assert one.next() == 1
    one.die()
    session: Session = session_of("default")
    assert stream_release.release_stream(session, STREAM) == 1
    assert tickets() == {a[0]}
    assert claimed_ids() == [a[0]]


def test_a_group_that_was_paused_in_between_begins_nothing_when_its_claim_is_released(
    query: Callable[..., Query],
) -> None:
    a = send("a", 2)
    one = query()
    assert one.next() == 1
    Group.objects.pause(QUEUE, "a")
    one.die()
    assert stream_release.release_stream(session_of("default"), STREAM) == 1
    assert claimed_ids() == []
    assert waiting() == set(a)
    Group.objects.resume(QUEUE, "a")
    assert claimed_ids() == [a[0]]


def test_pieces_of_a_split_claim_hand_on_one_by_one(query: Callable[..., Query]) -> None:
    ids = [send(f"g{group}", 2) for group in range(32)]
    for _ in range(2):
        query().die_reading()
    three = query()
    assert three.read(1) == [ids[0][0], ids[1][0]]
    three.commit(1)
    assert tickets() == {ids[0][1], ids[1][1]} | {first for first, _ in ids[2:]}
    assert three.next() == 2
    three.read(2)
    three.commit(2)
    assert {ids[2][1], ids[3][1]} <= tickets()


def test_a_lane_that_could_not_be_kicked_is_kicked_when_the_session_is_back(
    query: Callable[..., Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody sends while the last one of the group is acked: the look after the commit finds it."""
    [first] = send("a")
    one = query()
    assert one.next() == 1
    one.read(1)
    real, later = stream_claimer.kick_freed, []

    def fail_once(*arguments: object) -> None:
        if not later:
            later.append(send("a")[0])  # it is committed, and its own look sees a free ticket or gives it one
            raise ConnectionError
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(stream_claimer, "kick_freed", fail_once)
    with pytest.raises(ConnectionError):
        one.claimer.ack(one.connection, 1)
    one.claimer.ack(one.connection, 1)
    assert tickets() == set(later)
    assert Message.objects.get(pk=first).status == "y"


if django_settings.TEST_DATABASE != "sqlite":

    def test_who_sends_while_the_last_of_a_group_is_acked_is_not_left_behind(
        query: Callable[..., Query], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send("a")
        one = query()
        assert one.next() == 1
        one.read(1)
        real, sent = stream_claimer.moved, []

        def send_after(*arguments: object) -> set[int]:
            freed = real(*arguments)  # type: ignore[arg-type]
            sent.extend(send("a"))  # its own look sees the ticket out, since the ack has not committed
            assert waiting() == set(sent)
            return freed

        monkeypatch.setattr(stream_claimer, "moved", send_after)
        one.commit(1)
        assert waiting() == set()
        assert tickets() == set(sent)
