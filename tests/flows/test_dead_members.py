"""A death lets those run that wait for one, and holds the others until it is mended; a flow can be cancelled (P22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue import Envelope, flow
from django_dbqueue.exceptions import Suspended
from django_dbqueue.flows import flow_rows
from django_dbqueue.lifecycle import flow_moves
from django_dbqueue.models import Edge, Event, Flow, Message
from tests.factories import QUEUE, claim_one, claimed, let_end
from tests.flows.fans import fan, has_ended, keep, payloads, reject, run

pytestmark = pytest.mark.django_db(transaction=True)


def test_behind_a_dead_one_it_waits_until_that_is_requeued() -> None:
    number = fan(2)
    run(0, reject)
    run(1)
    keep()
    assert claimed() == []
    assert Flow.objects.get(pk=number).progress()[:3] == (3, 1, 1)
    assert Message.objects.dead(QUEUE).requeue() == 1
    run(0)
    run("last")
    assert has_ended(number)


@pytest.mark.parametrize("verb", ["drop", "purge"])
def test_behind_a_dead_one_it_goes_on_when_that_is_dropped_or_purged(verb: str) -> None:
    number = fan(1)
    run(0, reject)
    dead = Message.objects.dead(QUEUE)
    dead.drop_all("unwanted") if verb == "drop" else dead.purge()
    run("last")
    assert has_ended(number)


def spend(message: Message) -> None:
    message.nack(error="no")


def lose(message: Message) -> None:
    let_end(message)
    Message.objects.rescue()


@pytest.mark.parametrize("end", [spend, lose], ids=["its reads are spent", "a rescue"])
def test_each_death_counts(end: Callable[[Message], None]) -> None:
    with flow("f") as f:
        part = f.enqueue(Envelope(1, max_reads=1), queue=QUEUE)
        f.enqueue("alert", queue=QUEUE, after=part, when="dead")
    end(claim_one())
    run("alert")


def test_an_alert_runs_at_the_first_death_and_once() -> None:
    number = fan(3, when="dead")
    run(0)
    run(1, reject)
    run(2, reject)
    run("last")
    assert claimed() == []
    Message.objects.dead(QUEUE).drop_all("unwanted")
    assert has_ended(number)


def test_an_alert_that_is_not_needed_is_dropped_and_what_is_after_it_goes_on() -> None:
    with flow("f") as f:
        parts = f.enqueue_many(range(2), queue=QUEUE)
        alert = f.enqueue("alert", queue=QUEUE, after=parts, when="dead")
        f.enqueue("end", queue=QUEUE, after=alert, when="finished")
    run(0)
    run(1)
    run("end")
    assert Message.objects.get(pk=alert.first).error == flow_moves.NOT_NEEDED
    assert has_ended(f.id)


def test_finished_goes_on_either_way() -> None:
    fan(2, when="finished")
    run(0, reject)
    run(1)
    run("last")


def test_behind_a_dead_one_a_mixed_one_waits() -> None:
    with flow("f") as f:
        part = f.enqueue(1, queue=QUEUE)
        f.enqueue("end", queue=QUEUE, after=part, when="finished")
        f.enqueue("report", queue=QUEUE, after=part)
    run(1, reject)
    run("end")
    keep()
    assert Message.objects.waiting(QUEUE).get().payload == "report"


def test_one_that_waits_can_be_dropped_and_what_is_after_it_goes_on() -> None:
    with flow("f") as f:
        last = f.chain((QUEUE, 1), (QUEUE, 2))
        f.enqueue(3, queue=QUEUE, after=last)
    assert Message.objects.filter(pk=last.first).drop_all("unwanted") == 1
    assert payloads() == [1, 3]
    Message.objects.filter(status="run").drop_all("too")
    assert has_ended(f.id)


def test_a_flow_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_rows, "AT_ONCE", 2)
    number, other = fan(), fan(1)
    claim_one()
    assert Flow.objects.cancel(number, reason="wrong file", by="ann") == 4
    assert has_ended_but_for(number, other)
    assert not Message.objects.filter(flow=number).exclude(error__endswith="by ann: wrong file").exists()
    assert Flow.objects.cancel(number) == 0
    assert payloads() == [0]


def test_what_is_cancelled_lets_none_of_those_run_that_waited_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_rows, "AT_ONCE", 2)
    with flow("f") as f:
        pages = f.enqueue_many(range(2), queue=QUEUE)
        report = f.enqueue("report", queue="after", after=pages)
        f.enqueue_many(["mail", "print", "file"], queue="after", after=report)
    claim_one().spawn("child", queue=QUEUE)
    drop, ran = flow_rows._drop, list[Any]()

    def drop_and_check(*args: Any) -> int:
        dropped = drop(*args)
        ran.extend(message.payload for message in Message.objects.claim(9, queue="after"))
        return dropped

    monkeypatch.setattr(flow_rows, "_drop", drop_and_check)
    assert Flow.objects.cancel(f.id) == 7
    assert ran == []


def has_ended_but_for(number: int, other: int) -> bool:
    return (
        Flow.objects.get(pk=number).progress().all_finished and not Flow.objects.get(pk=other).progress().all_finished
    )


@pytest.mark.parametrize("then", ["waits for its turn", "waits for an event"])
def test_an_alert_that_was_cancelled_and_requeued_runs_however_what_it_waited_for_ends(then: str) -> None:
    group = "busy" if then == "waits for its turn" else None
    Message.objects.enqueue("before it", queue=QUEUE, group=group)
    with flow("f") as f:
        first = f.enqueue("first", queue="work")
        f.enqueue(Envelope("alert", group=group), queue=QUEUE, after=first, when="dead")
    before = claim_one()
    alert = Message.objects.get(flow=f.id, queue=QUEUE)
    Message.objects.cancel(alert.pk, reason="not now")
    assert Message.objects.filter(pk=alert.pk).requeue() == 1
    assert not Edge.objects.exists()
    if then == "waits for an event":
        with pytest.raises(Suspended):
            claim_one().wait_for("an answer")
    [one] = Message.objects.claim(queue="work")
    one.ack()
    before.ack()
    Event.objects.emit("an answer")
    run("alert")
    assert has_ended(f.id)


def test_a_flow_is_cancelled_for_a_reason_that_no_column_can_hold() -> None:
    number = fan(2)
    assert Flow.objects.cancel(number, reason="bad \udcff and \0", by="o\udcffp") == 3
    assert has_ended(number)
