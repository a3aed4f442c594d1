"""What a flow can't be is said in a sentence, and nothing is written."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, transaction

from django_dbqueue import Envelope, InvalidFlow, InvalidMessage, TransactionNotAllowed, flow
from django_dbqueue.exceptions import UndecodableMessage
from django_dbqueue.flows import flow_rows
from django_dbqueue.flows.flow_rows import Part
from django_dbqueue.lifecycle.flows_sql import AFTER
from django_dbqueue.models import Edge, Flow, Message
from tests.factories import QUEUE, claim_one
from tests.flows.fans import fan, has_ended, payloads, run

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_can_not_be_done_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with flow("other") as other:
        foreign = other.enqueue(1, queue=QUEUE)
    with flow("f") as f:
        part = f.enqueue(1, queue=QUEUE)
        with pytest.raises(InvalidFlow, match=f"after names messages of flow #{other.id}, but this is flow #{f.id}"):
            f.enqueue(2, queue=QUEUE, after=foreign)
        with pytest.raises(InvalidFlow, match="when must be one of done, dead, finished, not 'always'"):
            f.enqueue(2, queue=QUEUE, after=part, when="always")
        with pytest.raises(InvalidFlow, match="there is no after"):
            f.enqueue(2, queue=QUEUE, when="dead")
        with pytest.raises(InvalidFlow, match=r"after takes what enqueue\(\) of this flow returned, not 17"):
            f.enqueue(2, queue=QUEUE, after=[17])  # type: ignore[list-item]
        with pytest.raises(InvalidFlow, match="can't have a token of once"):
            f.enqueue(Envelope(2, once="t"), queue=QUEUE)
        with pytest.raises(InvalidFlow, match="not a single dict"):
            f.enqueue_many({"a": 1}, queue=QUEUE)
        with pytest.raises(InvalidFlow, match="at least one step"):
            f.chain()
        with pytest.raises(InvalidMessage, match="not a queue name"):
            f.enqueue(2, queue="no queue")
        monkeypatch.setattr(flow_rows, "MOST_EDGES", 5)
        with pytest.raises(InvalidFlow, match="6 messages after 1 are 6 edges, but 5 at most"):
            f.enqueue_many(range(6), queue=QUEUE, after=part)
    assert Message.objects.count() == 2
    for name in ("", "n" * 201, 17):
        with pytest.raises(InvalidFlow, match="The name of a flow must be"), flow(name):  # type: ignore[arg-type]
            pass


def test_with_autocommit_off_it_is_refused() -> None:
    connection.set_autocommit(False)
    try:
        with pytest.raises(TransactionNotAllowed, match="autocommit off"), flow("f"):
            pass
    finally:
        connection.rollback()
        connection.set_autocommit(True)


def test_an_empty_part_holds_nothing() -> None:
    with flow("f") as f:
        none = f.enqueue_many([], queue=QUEUE)
        f.enqueue("last", queue=QUEUE, after=none)
    run("last")
    assert has_ended(f.id)


def test_after_an_empty_part_there_is_no_death_to_wait_for() -> None:
    with flow("f") as f:
        none = f.enqueue_many([], queue=QUEUE)
        alert = f.enqueue("alert", queue=QUEUE, after=none, when="dead")
        f.enqueue("last", queue=QUEUE, after=[none, alert], when="finished")
    assert alert.messages == 0
    run("last")
    assert has_ended(f.id)


@pytest.mark.parametrize("single", ["text", b"bytes", {"page": 1}, Envelope(1)], ids=repr)
def test_the_parts_of_a_single_payload_become_no_messages(single: Any) -> None:
    fan(1)
    parent = claim_one()
    with pytest.raises(InvalidFlow, match=r"not a single \w+: use spawn"):
        parent.spawn_many(single, queue=QUEUE)
    with flow("another") as f, pytest.raises(InvalidFlow, match=r"not a single \w+: use enqueue"):
        f.enqueue_many(single, queue=QUEUE)
    assert Message.objects.count() == 2


@pytest.mark.parametrize("wrong", ["pages", 17, ("pages",), None, ("a", "b", "c")], ids=repr)
def test_a_step_that_is_no_pair_is_an_invalid_flow(wrong: Any) -> None:
    """Two characters would be a queue and a payload."""
    with flow("f") as f:
        for call in (
            lambda: f.chain(wrong if wrong != "pages" else "ab"),
            lambda: f.chord([wrong], (QUEUE, 1)),
            lambda: f.chord([(QUEUE, 1)], wrong),
        ):
            with pytest.raises(InvalidFlow, match="a step is a pair: a queue, and a payload or an Envelope"):
                call()


@pytest.mark.parametrize("wrong", [17, None, "part", ["part"]], ids=repr)
def test_what_is_no_part_is_nothing_to_be_after(wrong: Any) -> None:
    with flow("f") as f, pytest.raises(InvalidFlow, match="after takes what enqueue"):
        f.enqueue(1, queue=QUEUE, after=wrong)


def test_what_was_rolled_back_is_nothing_to_be_after() -> None:
    """On SQLite the next message has the ids of those that were rolled back, and would wait for itself."""
    with flow("f") as f:
        with suppress(ZeroDivisionError), transaction.atomic():
            part = f.enqueue("gone", queue=QUEUE)
            raise ZeroDivisionError
        with pytest.raises(InvalidFlow, match="what wrote them was rolled back"):
            f.enqueue("after", queue=QUEUE, after=part)
        f.enqueue("first", queue=QUEUE)
    assert payloads() == ["first"]
    assert not Edge.objects.exists()


def test_a_flow_is_closed_when_its_block_ends() -> None:
    with flow("f") as f:
        part = f.enqueue(1, queue=QUEUE)
    with pytest.raises(InvalidFlow, match="has ended"):
        f.enqueue(2, queue=QUEUE, after=part)
    assert Message.objects.count() == 1


def test_another_thread_sends_nothing_of_a_flow_outside_its_transaction() -> None:
    with flow("f") as f, ThreadPoolExecutor(1) as pool, pytest.raises(InvalidFlow, match="begun in another thread"):
        pool.submit(f.enqueue, 1, queue=QUEUE).result()
    assert not Message.objects.exists()


@pytest.mark.parametrize("number", [None, "7 files", True, 1.5, 0, -1, 2**63, Flow(pk=7, name="7 files")], ids=repr)
def test_what_is_no_number_cancels_no_flow(number: Any) -> None:
    """MySQL would find flow 7 by "7 files"."""
    with pytest.raises(InvalidFlow, match="takes the number of a flow"):
        Flow.objects.cancel(number)


def test_the_name_of_a_flow_that_no_database_can_store_is_an_invalid_flow() -> None:
    with pytest.raises(InvalidFlow, match="valid Unicode"), flow("\ud800"):
        pass


def test_outside_a_flow_nothing_is_spawned() -> None:
    Message.objects.enqueue(1, queue=QUEUE)
    with pytest.raises(InvalidFlow, match="is not of a flow"):
        claim_one().spawn(2, queue=QUEUE)


@pytest.mark.parametrize("forged", ["1-5", [1, 2], [[1]], [["1", 2]], {"1": 2}], ids=repr)
def test_ranges_that_somebody_has_changed_are_undecodable(forged: Any) -> None:
    with flow("f") as f:
        f.enqueue(1, queue=QUEUE)
    Message.objects.update(headers_text=json.dumps({AFTER: forged}))
    message = claim_one()
    with pytest.raises(UndecodableMessage, match=f"message {message.pk}: its header 'dbqueue.after' must be a list"):
        message.results()


@pytest.mark.parametrize("most", [0, -1, True, "5", 1.5], ids=repr)
def test_most_is_a_number_of_messages(most: Any) -> None:
    with flow("f") as f:
        f.enqueue(1, queue=QUEUE)
    with pytest.raises(InvalidFlow, match="most must be a whole number of messages"):
        Flow.objects.get(pk=f.id).progress(most=most)


def test_more_separate_ones_to_be_after_than_a_header_holds_are_refused_with_what_to_do() -> None:
    with flow("f") as f:
        parts = [Part(f.id, ((number, number),), 1) for number in range(10**6, 10**6 + 4_000, 2)]
        with pytest.raises(InvalidFlow, match=r"after names 2,000 separate messages.*enqueue_many"):
            f.enqueue("last", queue=QUEUE, after=parts)


def test_headers_that_are_none_are_refused_in_a_flow_as_elsewhere() -> None:
    with flow("f") as f:
        first = f.enqueue("first", queue=QUEUE)
        with pytest.raises(InvalidMessage, match="headers must be a dict"):
            f.enqueue(Envelope("last", headers=[1]), queue=QUEUE, after=first)  # type: ignore[arg-type]
