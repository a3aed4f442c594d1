"""All that matches is moved, once; what came later, moved meanwhile or is held by others stays as it is."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_dbqueue import Envelope
from django_dbqueue.models import BulkOperation, Message, MessageEvent
from django_dbqueue.operations import bulk, mover
from django_dbqueue.sessions.django_session import DjangoSession
from tests.concurrency.steps import aside
from tests.factories import QUEUE, claim_one, dead, done, held, let_end, stuck, waiting
from tests.operations.orders import OPERATIONS, counts, go_on, next_step, operator, order, select, stop

pytestmark = pytest.mark.django_db(transaction=True)


def dead_many(number: int, queue: str = QUEUE, **options: Any) -> list[int]:
    Message.objects.enqueue_many([Envelope(n, **options) for n in range(number)], queue=queue)
    rows = Message.objects.ready(queue)
    ids = list(rows.values_list("pk", flat=True))
    rows.reject_waiting("broken")
    return ids


def dropped() -> set[int]:
    return set(Message.objects.done().filter(error__startswith="Dropped by").values_list("pk", flat=True))


def test_everything_that_matches_is_moved_in_as_many_steps_as_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "STEP", 4)
    ids = [*dead_many(10), *dead_many(3, priority=7)]
    others = dead_many(2, "other")
    operation = go_on(order())
    assert counts(operation) == ("done", 13, 0)
    assert operation.expected == 13
    assert operation.ended_at is not None
    assert dropped() == set(ids)
    assert set(Message.objects.dead().values_list("pk", flat=True)) == set(others)
    assert operation.steps >= 4


@pytest.mark.parametrize("size", [1, 2, 3, 500])
@pytest.mark.parametrize("state", ["ready", "delayed", "running", "stuck", "dead", "done"])
def test_every_state_is_walked_to_its_end_whatever_the_size_of_a_step(
    state: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STEP", size)
    expected = set()
    for queue in ("a", "b"):
        for priority in (5, 0, 0, -3):
            expected.add(_make(state, queue, priority).pk)
            _make("dead" if state != "dead" else "ready", queue, priority)
    assert set(_walk(select(state, None))) == expected
    assert int(bulk.count(DjangoSession("default"), select(state, None))) == len(expected)
    assert int(bulk.count(DjangoSession("default"), select(state, "a"))) == len(expected) // 2


def _make(state: str, queue: str, priority: int) -> Message:
    options: dict[str, Any] = {"queue": queue, "priority": priority}
    if state == "delayed":
        return waiting(delay=900, **options)
    makers: dict[str, Any] = {"ready": waiting, "running": held, "stuck": stuck, "dead": dead, "done": done}
    if state == "ready":
        return waiting(**options)
    Message.objects.enqueue("x", **{**options, "priority": 100})
    message = claim_one(queue)
    Message.objects.filter(pk=message.pk).update(priority=priority)
    assert state in makers
    if state == "stuck":
        let_end(message)
    elif state == "dead":
        message.reject("broken")
    elif state == "done":
        message.ack()
    return message


def _walk(selection: bulk.Selection) -> list[int]:
    found, cursor = [], ""
    while True:
        page = bulk.find(DjangoSession("default"), selection, cursor, bulk.STEP)
        found += page.ids
        if page.cursor is None:
            assert len(found) == len(set(found)), "a message was met twice"
            return found
        cursor = page.cursor


@pytest.mark.parametrize(
    ("verb", "state", "then"),
    [
        ("requeue", "dead", "ready"),
        ("requeue", "running", "ready"),
        ("release", "running", "ready"),
        ("reject", "ready", "dead"),
        ("reject", "running", "dead"),
        ("drop", "delayed", "done"),
        ("drop", "stuck", "done"),
    ],
)
def test_every_verb_moves_what_matches_and_records_it_in_each_messages_life(verb: str, state: str, then: str) -> None:
    messages = [_make(state, QUEUE, 0) for _ in range(3)]
    MessageEvent.objects.all().delete()
    user = operator()
    operation = go_on(order(verb, select(state), user=user))
    assert counts(operation) == ("done", 3, 0)
    there = getattr(Message.objects, then)(QUEUE).filter(pk__in=[message.pk for message in messages])
    assert there.count() == 3
    events = MessageEvent.objects.values_list("message_id", "actor")
    assert sorted(events) == sorted((message.pk, user.get_username()) for message in messages)


def test_sending_again_sends_a_new_message_for_each_and_ends() -> None:
    dead_many(5)
    operation = go_on(order("send-again"))
    assert counts(operation) == ("done", 5, 0)
    assert Message.objects.ready(QUEUE).count() == 5
    assert Message.objects.dead(QUEUE).count() == 5


def test_what_comes_after_the_order_is_not_touched() -> None:
    before = dead_many(3)
    operation = order()
    after = dead_many(3)
    assert counts(go_on(operation)) == ("done", 3, 0)
    assert dropped() == set(before)
    assert set(Message.objects.dead(QUEUE).values_list("pk", flat=True)) == set(after)


def test_what_dies_after_the_order_is_not_touched_though_it_was_sent_before() -> None:
    late = waiting()
    early = dead_many(1, "tests.early")
    Message.objects.filter(pk__in=early).update(queue=QUEUE)
    operation = order()
    Message.objects.filter(pk=late.pk).reject_waiting("later")
    assert counts(go_on(operation)) == ("done", 1, 1)
    assert dropped() == set(early)


def test_what_does_not_match_any_more_is_not_touched() -> None:
    ids = dead_many(3)
    operation = order()
    Message.objects.filter(pk=ids[0]).requeue()
    assert counts(go_on(operation)) == ("done", 2, 0)
    assert Message.objects.ready(QUEUE).get().pk == ids[0]


def test_what_a_newer_live_message_has_the_key_of_is_left_alone_and_the_others_go_on() -> None:
    keyed = dead(key="k")
    others = dead_many(3)
    waiting(key="k")
    operation = go_on(order("requeue"))
    assert counts(operation) == ("done", 3, 1)
    assert Message.objects.dead(QUEUE).get().pk == keyed.pk
    assert Message.objects.ready(QUEUE).filter(pk__in=others).count() == 3


if connection.vendor != "sqlite":

    def test_what_others_have_locked_is_left_alone_and_nothing_waits() -> None:
        ids = dead_many(3)
        operation = order()
        with aside() as other:
            other.open_transaction()
            other.do(lambda: Message.objects.select_for_update().get(pk=ids[1]))
            assert counts(go_on(operation)) == ("done", 2, 1)
            other.commit()
        assert dropped() == {ids[0], ids[2]}


def test_a_stopped_operation_takes_no_further_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "STEP", 4)
    dead_many(10)
    operation = order()
    assert next_step()
    stop(operation)
    assert counts(go_on(operation)) == ("stopped", 4, 0)
    assert Message.objects.dead(QUEUE).count() == 6
    assert not Message.objects.in_queue(OPERATIONS).exclude(status="y").exists()


def test_an_operator_who_loses_the_permission_is_refused_at_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "STEP", 4)
    dead_many(10)
    user = operator("view_message", "drop_message")
    operation = order(user=user)
    assert next_step()
    user.user_permissions.clear()
    assert counts(go_on(operation)) == ("refused", 4, 0)
    assert user.get_username() in operation.error
    assert Message.objects.dead(QUEUE).count() == 6


@pytest.mark.parametrize("how", ["inactive", "deleted", "another permission"])
def test_no_other_goes_on_in_an_operators_name(how: str) -> None:
    dead_many(2)
    user = operator("view_message", "requeue_message" if how == "another permission" else "drop_message")
    operation = order(user=user)
    if how == "inactive":
        user.is_active = False
        user.save()
    if how == "deleted":
        user.delete()
    assert counts(go_on(operation)) == ("refused", 0, 0)
    assert Message.objects.dead(QUEUE).count() == 2


def test_a_step_that_is_delivered_twice_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "STEP", 4)
    dead_many(10)
    operation = order()
    Message.objects.enqueue({"operation": operation.pk}, queue=OPERATIONS)
    assert counts(go_on(operation)) == ("done", 10, 0)
    assert len(dropped()) == 10


def test_the_end_is_written_into_the_admin_log() -> None:
    dead_many(2)
    user = operator()
    operation = go_on(order(user=user))
    [entry] = LogEntry.objects.filter(object_id=operation.pk)
    assert (entry.user_id, "2 moved" in entry.change_message) == (user.pk, True)


def test_a_step_that_fails_is_undone_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    dead_many(3)
    operation = order()

    def burst(*_: Any, **__: Any) -> None:
        raise OSError("no luck")

    monkeypatch.setattr(BulkOperation, "_send_step", burst)
    monkeypatch.setattr(bulk, "STEP", 2)
    with pytest.raises(OSError, match="no luck"):
        next_step()
    assert counts(operation) == ("running", 0, 0)
    assert Message.objects.dead(QUEUE).count() == 3
    assert Message.objects.in_queue(OPERATIONS).get().pk == operation.message_id


def test_the_last_failed_delivery_ends_the_operation_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    dead_many(3)
    operation = order()
    Message.objects.in_queue(OPERATIONS).update(max_reads=1)

    def burst(*_: Any, **__: Any) -> None:
        raise OSError("no luck")

    monkeypatch.setattr(mover, "move_page", burst)
    with pytest.raises(OSError, match="no luck"):
        next_step()
    assert counts(operation) == ("failed", 0, 0)
    assert "no luck" in operation.error


def test_an_operation_on_all_queues_leaves_its_own_steps_alone() -> None:
    waiting(queue="a")
    waiting(queue="z")
    operation = order("drop", select("ready", None))
    assert counts(go_on(operation)) == ("done", 2, 0)
    assert operation.expected == 2


def test_counts_stop_at_the_cap() -> None:
    dead_many(12)
    assert str(bulk.count(DjangoSession("default"), select(), 10)) == "10+"
    assert str(bulk.count(DjangoSession("default"), select(), 12)) == "12"
    assert str(bulk.count(DjangoSession("default"), select("dead", None), 10)) == "10+"


def test_a_step_costs_the_same_few_statements_however_much_it_moves() -> None:
    spent = []
    for number in (3, 60):
        dead_many(number)
        operation = order()
        with CaptureQueriesContext(connection) as queries:
            assert next_step()
        spent.append(len(queries))
        assert counts(operation)[1] == number
        go_on(operation)
    assert spent[0] == spent[1]


@override_settings(DBQUEUE={"OPERATIONS_QUEUE": "ours"})
def test_the_queue_of_the_steps_has_the_name_that_the_settings_give_it() -> None:
    order()
    assert Message.objects.ready("ours").count() == 1
