"""Messages of a flow run when those that they are after have ended as they want, once (P22)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_dbqueue import DuplicateKey, Envelope, flow
from django_dbqueue.flows.flow_keeper import FlowKeeper
from django_dbqueue.lifecycle import flow_moves
from django_dbqueue.models import Edge, Flow, FlowPart, Group, Line, Message, Ticket
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.keepers import Keepers
from tests.factories import QUEUE, claim_one, claimed, let_end, row
from tests.flows.fans import break_in_a_flow, fan, has_ended, keep, payloads, run
from tests.lifecycle.rollback import rolled_back

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.django_db(transaction=True)


# Edges


def test_a_message_runs_when_all_before_it_are_done() -> None:
    number = fan()
    assert Message.objects.waiting(QUEUE).get().payload == "last"
    messages = Message.objects.claim(10, queue=QUEUE)
    assert [message.payload for message in messages] == [0, 1, 2]
    for message in messages:
        assert claimed() == []
        message.ack()
    run("last")
    assert has_ended(number)


def test_acks_of_many_in_one_transaction_wake_once() -> None:
    number = fan(50)
    assert Message.objects.ack(Message.objects.claim(50, queue=QUEUE)) == []
    run("last")
    assert has_ended(number)


def test_an_ack_in_a_transaction_wakes_after_its_commit() -> None:
    fan(1)
    message = claim_one()
    with transaction.atomic():
        message.ack()
        assert Message.objects.waiting(QUEUE).count() == 1
    assert payloads() == ["last"]


def test_an_ack_that_is_rolled_back_wakes_none() -> None:
    fan(1)
    message = claim_one()
    with rolled_back():
        message.ack()
    keep()
    assert Message.objects.waiting(QUEUE).count() == 1
    assert Edge.objects.count() == 2


def test_a_flow_that_is_rolled_back_leaves_nothing() -> None:
    with rolled_back():
        fan()
    assert not any(model.objects.exists() for model in (Message, Edge, Flow, FlowPart))
    with pytest.raises(ZeroDivisionError):
        break_in_a_flow()
    assert not any(model.objects.exists() for model in (Message, Edge, Flow, FlowPart))


def test_a_chain_runs_one_after_the_other_and_a_chord_ends_in_one() -> None:
    with flow("sugar") as f:
        first = f.chain((QUEUE, "a"), (QUEUE, Envelope("b")))
        f.chord([(QUEUE, "c"), (QUEUE, "d")], (QUEUE, "e"), after=first)
    run("a")
    run("b")
    messages = Message.objects.claim(10, queue=QUEUE)
    assert [message.payload for message in messages] == ["c", "d"]
    messages[1].ack()
    assert claimed() == []
    messages[0].ack()
    run("e")
    assert has_ended(f.id)


def test_a_retry_a_release_and_a_rescue_of_what_is_before_it_change_nothing() -> None:
    fan(1)
    run(0, lambda message: message.nack(delay=0, error="once more"))
    run(0, lambda message: message.release())
    let_end(claim_one())
    Message.objects.rescue()
    assert Message.objects.waiting(QUEUE).count() == 1
    run(0)
    run("last")


# Groups, delays, keys


def test_edges_come_first_then_the_line() -> None:
    Message.objects.enqueue("before", queue=QUEUE, group="g")
    with flow("f") as f:
        part = f.enqueue(1, queue=QUEUE)
        f.enqueue(Envelope("grouped", group="g"), queue=QUEUE, after=part)
        f.enqueue_many([Envelope(2, group="h"), 3], queue=QUEUE)
    assert Line.objects.count() == 0
    assert sorted(map(str, payloads())) == ["1", "2", "3", "before"]
    for message in Message.objects.filter(status="run"):
        message.held_token = message.claim_token
        if message.payload != "before":
            message.ack()
    assert (Line.objects.count(), claimed()) == (1, [])
    before = Message.objects.get(status="run")
    before.held_token = before.claim_token
    before.ack()
    run("grouped")
    assert not Line.objects.exists()
    assert not Ticket.objects.exists()


def test_a_paused_group_holds_what_its_edges_let_go() -> None:
    with flow("f") as f:
        part = f.enqueue(1, queue=QUEUE)
        f.enqueue(Envelope(2, group="g"), queue=QUEUE, after=part)
    Group.objects.pause(QUEUE, "g")
    run(1)
    keep()
    assert claimed() == []
    Group.objects.resume(QUEUE, "g")
    run(2)


def test_a_delay_counts_from_the_sending() -> None:
    fan(1, delay=3_600)
    run(0)
    assert claimed() == []
    assert Message.objects.delayed(QUEUE).get().payload == "last"


def test_a_key_that_is_in_use_undoes_the_flow() -> None:
    Message.objects.enqueue("live", queue=QUEUE, key="k")
    with flow("f") as f:
        f.enqueue_many([1, Envelope(1, key="other")], queue=QUEUE)
        with pytest.raises(DuplicateKey, match="k"):
            f.enqueue_many([2, Envelope(2, key="k")], queue=QUEUE)
        transaction.set_rollback(True)
    assert (Message.objects.count(), Flow.objects.count()) == (1, 0)


# Who died, and who told nobody


@pytest.mark.parametrize(("group", "new_group"), [(None, None), ("a", "a"), ("a", "b"), (None, "b"), ("a", None)])
@pytest.mark.parametrize("by", ["enqueue", "enqueue_many"])
def test_new_content_for_one_that_waits_is_no_reason_to_begin(
    by: str, group: str | None, new_group: str | None
) -> None:
    with flow("keyed") as f:
        first = f.enqueue(1, queue=QUEUE)
        f.enqueue(Envelope(2, key="k", group=group), queue=QUEUE, after=first)
    new = Envelope(3, key="k", group=new_group)
    if by == "enqueue_many":
        assert Message.objects.enqueue_many([new], queue=QUEUE, on_conflict="update").updated == 1
    else:
        sent = Message.objects.enqueue(3, queue=QUEUE, key="k", group=new_group, on_conflict="update")
        assert sent.outcome == "updated"
    assert not Line.objects.exists()
    began = claim_one()
    assert (began.payload, claimed()) == (1, [])
    began.ack()
    run(3)
    assert not Ticket.objects.exists()
    assert has_ended(f.id)


def test_who_died_before_its_check_is_followed_by_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    fan(1)
    with monkeypatch.context() as patch:
        patch.setattr(flow_moves, "check_gates", lambda *_: 0)
        run(0)
    assert claimed() == []
    keep()
    run("last")


def test_an_end_by_sql_is_found_by_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_dbqueue.flows.flow_keeper.STEP", 2)
    monkeypatch.setattr("django_dbqueue.flows.flow_keeper.AT_ONCE", 4)
    number = fan(7)
    Message.objects.filter(flow=number, available_at__lt="9000-01-01T00:00Z").update(status="y", finished_at=DbNow())
    keep()
    run("last")
    alert = fan(1, when="dead")
    Message.objects.filter(flow=alert).ready().update(available_at=None, finished_at=DbNow())
    keep()
    run("last")


def test_where_there_are_no_flows_the_keeper_asks_one_statement_and_messages_pay_none() -> None:
    with CaptureQueriesContext(connection) as queries:
        Keepers(session_of("default")).turn()
    assert len(queries) == 1
    Message.objects.enqueue(1, queue=QUEUE)
    message = claim_one()
    with CaptureQueriesContext(connection) as queries:
        message.ack()
    assert len(queries) == 1
    assert not FlowKeeper(session_of("default")).turn()


def test_the_column_of_a_message_outside_a_flow_is_null() -> None:
    message = Message.objects.enqueue(1, queue=QUEUE)
    assert row(message)["flow"] is None
    with override_settings(DBQUEUE={"QUEUES": {QUEUE: {"on_ack": "delete"}}}):
        number = fan(1)
        run(1)
        run(0)
        run("last")
        assert has_ended(number)


def test_a_flow_is_forgotten_when_it_is_old_and_its_messages_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    old, other, new = fan(1), fan(1), fan(1)
    Flow.objects.filter(pk__in=[old, other]).update(created_at="2020-01-01T00:00Z")
    keep()
    assert Flow.objects.count() == 3
    Flow.objects.cancel(old)
    Flow.objects.cancel(new)
    Message.objects.archive(QUEUE, older_than=0)
    keep()
    assert set(Flow.objects.values_list("pk", flat=True)) == {other, new}
    assert set(FlowPart.objects.values_list("flow", flat=True)) == {other, new}
    assert has_ended(new) or Edge.objects.filter(downstream__in=Message.objects.filter(flow=other)).exists()


def test_of_many_messages_the_first_are_counted_if_no_more_are_wanted() -> None:
    with flow("parts") as f:
        for size in (3, 2, 4):
            f.enqueue_many(range(size), queue=QUEUE)
    Message.objects.ack(Message.objects.claim(6, queue=QUEUE))
    found = Flow.objects.get(pk=f.id)
    assert found.progress()[:4] == (9, 6, 0, 9)
    assert found.progress(most=9)[:4] == (9, 6, 0, 9)
    cut = found.progress(most=6)
    assert (cut[:4], cut.left, cut.all_finished) == ((9, 5, 0, 5), 0, False)
    assert found.progress(most=1)[:4] == (9, 3, 0, 3)
