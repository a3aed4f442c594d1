"""Many messages go in: any iterable, one transaction, bounded memory, and a report of what became of each."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_dbqueue import DuplicateKey, Envelope, InvalidMessage
from django_dbqueue.models import Message
from tests.factories import QUEUE, claim_one, held, row, rows, waiting

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


def enqueue_many(items: Any, **options: Any) -> tuple[int, int, int]:
    report = Message.objects.enqueue_many(items, queue=QUEUE, **options)
    assert report.total == report.created + report.updated + report.ignored
    return report.created, report.updated, report.ignored


def payloads() -> list[Any]:
    return [message.payload for message in Message.objects.order_by("pk")]


@pytest.mark.parametrize("make", [list, tuple, iter, lambda items: (item for item in items)])
def test_any_iterable_goes_in_in_its_order(make: Any) -> None:
    assert enqueue_many(make([1, "two", b"three", Envelope([4], priority=0), None])) == (5, 0, 0)
    assert payloads() == [1, "two", b"three", [4], None]
    assert [m.payload for m in Message.objects.claim(9, queue=QUEUE)] == [1, "two", b"three", [4], None]


def test_nothing_is_a_good_iterable_too() -> None:
    assert enqueue_many([]) == (0, 0, 0)


@pytest.mark.parametrize(
    "one", ["a text", b"bytes", bytearray(b"b"), {"to": "ann"}, Envelope({"to": "ann"})], ids=lambda one: type(one)
)
def test_a_single_payload_is_refused_and_not_split_into_messages(one: Any) -> None:
    with pytest.raises(InvalidMessage, match=rf"not a single {type(one).__name__}.* use enqueue\(\)"):
        enqueue_many(one)
    assert payloads() == []


def test_an_envelope_has_what_enqueue_takes() -> None:
    envelope = Envelope("p", key="k", delay=60, priority=5, max_reads=2, lease=9, headers={"h": 1})
    assert enqueue_many([envelope]) == (1, 0, 0)
    [stored] = Message.objects.all()
    assert (stored.key, stored.priority, stored.max_reads, stored.lease_seconds) == ("k", 5, 2, 9)
    assert (stored.live, stored.headers, stored.due_at > stored.created_at) == (1, {"h": 1}, True)


def test_ten_thousand_go_in_by_few_statements() -> None:
    with CaptureQueriesContext(connection) as captured:
        assert enqueue_many(range(10_000)) == (10_000, 0, 0)
    assert payloads() == list(range(10_000))
    assert len(captured) < 10_000 / 50


def test_large_payloads_are_cut_into_statements_below_every_packet_limit() -> None:
    big = "\N{PILE OF POO}" * 200_000
    assert enqueue_many([big] * 30) == (30, 0, 0)
    assert set(payloads()) == {big}


def test_keys_that_stand_are_ignored_and_stay_as_they_were() -> None:
    live = waiting(payload="old", key="1")
    before = row(live)
    assert enqueue_many([Envelope(n, key=str(n)) for n in range(3)]) == (2, 0, 1)
    assert row(live) == before
    assert enqueue_many([Envelope(n, key=str(n)) for n in range(3)]) == (0, 0, 3)


def test_keys_that_stand_are_updated_unless_the_content_is_the_same() -> None:
    waiting(payload="old", key="1")
    waiting(payload=2, key="2")
    items = [Envelope(n, key=str(n)) for n in range(4)]
    assert enqueue_many(items, on_conflict="update") == (2, 1, 1)
    assert sorted(payloads()) == [0, 1, 2, 3]


def test_an_update_of_a_running_message_ends_its_claim() -> None:
    holder = held(payload="old", key="1")
    assert enqueue_many([Envelope("new", key="1")], on_conflict="update") == (0, 1, 0)
    assert Message.objects.ack([holder]) == [holder]
    assert claim_one().payload == "new"


def test_a_key_that_comes_twice_in_one_call_counts_as_live_the_second_time() -> None:
    twice = [Envelope("first", key="k"), Envelope("other"), Envelope("second", key="k")]
    assert enqueue_many(twice) == (2, 0, 1)
    assert sorted(payloads()) == ["first", "other"]


def test_of_a_key_that_comes_twice_in_one_call_an_update_keeps_the_last() -> None:
    often = [Envelope(n, key="k") for n in range(700)]
    assert enqueue_many(often, on_conflict="update") == (1, 699, 0)
    assert payloads() == [699]


def test_a_thousand_keys_each_twice_are_created_once() -> None:
    items = [Envelope(n, key=str(n % 1000)) for n in range(2000)]
    assert enqueue_many(iter(items)) == (1000, 0, 1000)
    assert sorted(payloads()) == list(range(1000))


@pytest.mark.parametrize("items", [["a", "b", "a"], ["z", "live"]])
def test_on_conflict_error_names_the_key_and_writes_nothing(items: list[str]) -> None:
    waiting(payload="old", key="live")
    before = rows()
    with pytest.raises(DuplicateKey, match="already has a live message with key") as refused:
        enqueue_many([Envelope(1, key=key) for key in items], on_conflict="error")
    assert (refused.value.queue, refused.value.key) == (QUEUE, items[-1])
    assert rows() == before


BAD: list[tuple[Any, str]] = [
    (float("nan"), "NaN and infinities are not JSON"),
    ({1: 2}, "has the key 1 of type int"),
    ("\ud800", "lone surrogate"),
    (Envelope(1, delay=-1), "delay must be from 0"),
    (object(), "The payload is not JSON"),
]


@transactional
@pytest.mark.parametrize(("bad", "error"), BAD, ids=range(len(BAD)))
def test_a_bad_item_is_named_by_its_number_and_nothing_of_the_call_is_written(bad: Any, error: str) -> None:
    def items() -> Iterator[Any]:
        yield from range(1234)
        yield bad
        yield from range(10)

    with pytest.raises(InvalidMessage, match=f"Item 1234: .*{error}.*Nothing was enqueued"):
        enqueue_many(items())
    assert rows() == []


def test_a_bad_item_is_named_by_its_key_too() -> None:
    with pytest.raises(InvalidMessage, match=r"Item 1 \(key 'order-7'\)"):
        enqueue_many([Envelope(1, key="a"), Envelope(float("inf"), key="order-7")])


@transactional
def test_an_iterator_that_breaks_off_writes_nothing_and_its_own_error_comes_through() -> None:
    def items() -> Iterator[int]:
        yield from range(5000)
        raise ConnectionError("the source went away")

    with pytest.raises(ConnectionError, match="the source went away"):
        enqueue_many(items())
    assert rows() == []


def test_a_string_on_conflict_that_is_unknown_is_refused_before_the_iterable_is_touched() -> None:
    with pytest.raises(InvalidMessage, match="on_conflict must be one of"):
        enqueue_many((1 / 0 for _ in range(1)), on_conflict="skip")


@override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 100})
def test_the_size_limit_holds_for_each_item_and_is_the_settings() -> None:
    assert enqueue_many(["x" * 100] * 3) == (3, 0, 0)
    with pytest.raises(InvalidMessage, match="Item 1: The payload takes 101 bytes as stored, but the limit is 100"):
        enqueue_many(["x", "x" * 101])


@pytest.mark.slow
@transactional
def test_sixty_megabytes_from_a_generator_take_no_more_memory_than_a_few_statements() -> None:
    letters = "x" * 2000
    tracemalloc.start()
    try:
        report = Message.objects.enqueue_many((f"{n}{letters}" for n in range(30_000)), queue=QUEUE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.created == Message.objects.count() == 30_000
    assert peak < 16 * 2**20
