"""``queue_requeue`` and ``queue_drop``: exactly what was named, in steps, asked for, told and logged."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.models import Message, MessageEvent
from django_dbqueue.operations import bulk, mover
from django_dbqueue.operations.outcome import MoveOutcome
from django_dbqueue.operations.verbs import VERBS
from tests.commands.sweeping import WHY, cancel, drop, due_now, move, one_of_each, requeue, state_of
from tests.factories import QUEUE, dead, held, held_many, let_pass, row, stuck, waiting

pytestmark = pytest.mark.django_db


# -- by their ids -----------------------------------------------------------------------------------------


def test_named_messages_are_requeued_as_if_new() -> None:
    first, second, other = dead(max_reads=3), stuck(), dead()
    ended = requeue(str(first.pk), str(second.pk), str(first.pk), "--yes")
    assert (ended.code, ended.out, ended.err) == (0, "2 messages requeued.\n", "")
    assert [state_of(message) for message in (first, second, other)] == ["ready", "ready", "dead"]
    assert (row(first)["read_count"], row(first)["crashes"]) == (0, 0)


def test_a_message_that_can_not_be_moved_is_named_and_the_others_go_on() -> None:
    made = one_of_each()
    gone = max(message.pk for message in made.values()) + 1_000
    ended = requeue(*(str(message.pk) for message in made.values()), str(gone), "--yes", "--json")
    assert ended.code == 1
    assert {name for name, message in made.items() if state_of(message) == "ready"} == {
        *("stuck", "running", "dead", "ready")
    }
    assert (ended.document["moved"], ended.document["left_alone"]) == (3, 5)
    assert {each["id"]: each["why"] for each in ended.document["refused"]} == {
        made["done"].pk: "is done already",
        made["delayed"].pk: "is neither claimed nor dead",
        made["waiting"].pk: "is neither claimed nor dead",
        made["ready"].pk: "is neither claimed nor dead",
        gone: "is not there: it may have been archived",
    }


def test_a_requeue_whose_key_is_in_use_is_refused_by_name() -> None:
    buried = dead(key="k")
    waiting(key="k")
    ended = requeue(str(buried.pk), "--yes")
    assert (ended.code, ended.out) == (1, "0 messages requeued.\n")
    assert ended.err.startswith(f"#{buried.pk}: ")
    assert "has its key 'k'" in ended.err
    assert state_of(buried) == "dead"


def test_named_messages_are_dropped_with_who_and_why() -> None:
    made = one_of_each()
    ids = [str(made[state].pk) for state in ("stuck", "running", "dead", "delayed", "waiting", "ready")]
    assert drop(*ids, *WHY, "--by", "ann", "--yes").out == "6 messages dropped.\n"
    assert {state_of(message) for message in made.values()} == {"done"}
    assert row(made["ready"])["error"].endswith("by ann: not wanted")
    assert row(made["done"])["error"] is None
    events = MessageEvent.objects.filter(message_id=made["dead"].pk, kind="dropped")
    assert [event.actor for event in events] == ["ann"]


def test_named_messages_are_cancelled_with_who_and_why_unless_they_have_ended() -> None:
    made = one_of_each()
    ids = [str(message.pk) for message in made.values()]
    ended = cancel(*ids, *WHY, "--by", "ann", "--yes", "--json")
    assert (ended.code, ended.document["moved"]) == (1, 5)
    assert {each["id"]: each["why"] for each in ended.document["refused"]} == {
        made["done"].pk: "is done already",
        made["dead"].pk: "is dead already",
    }
    assert {state_of(message) for message in made.values()} == {"dead", "done"}
    assert row(made["running"])["error"] == "Cancelled by ann: not wanted"
    assert row(made["dead"])["error"] == "unwanted"
    ready = waiting()
    assert cancel(str(ready.pk), *WHY, "--yes").out == "1 message cancelled.\n"


def test_named_messages_are_due_now_unless_they_are_already() -> None:
    made = one_of_each()
    ended = due_now(*(str(message.pk) for message in made.values()), "--by", "ann", "--yes", "--json")
    assert (ended.code, ended.document["verb"], ended.document["moved"]) == (1, "due-now", 2)
    assert (state_of(made["delayed"]), state_of(made["waiting"])) == ("ready", "waiting")
    assert row(made["waiting"])["due_at"] < row(made["waiting"])["available_at"]
    left = {each["id"]: each["why"] for each in ended.document["refused"]}
    assert left == {
        made["done"].pk: "is done already",
        made["ready"].pk: "is due already",
        made["dead"].pk: "is not delayed",
        made["stuck"].pk: "is not delayed",
        made["running"].pk: "is not delayed",
    }
    events = MessageEvent.objects.filter(kind="hastened").values_list("message_id", "actor")
    assert set(events) == {(made["delayed"].pk, "ann"), (made["waiting"].pk, "ann")}


def test_all_that_are_delayed_are_due_now_and_nothing_else() -> None:
    made, others = one_of_each(), one_of_each("other")
    arguments = ("--queue", QUEUE, "--state", "delayed", "--all")
    assert due_now(*arguments, "--dry-run").out.startswith("1 would be moved")
    assert due_now(*arguments, "--yes").out.startswith("1 message ")
    for name, message in made.items():
        assert state_of(message) == ("ready" if name == "delayed" else name)
    assert {name: state_of(message) for name, message in others.items()} == {name: name for name in others}
    assert due_now(*arguments, "--yes").code == 3


def test_named_messages_go_to_another_queue() -> None:
    made, there = one_of_each(), waiting(queue="there")
    ids = [str(message.pk) for message in (*made.values(), there)]
    ended = move(*ids, "--to", "there", "--by", "ann", "--yes", "--json")
    assert (ended.code, ended.document["moved"]) == (1, 4)
    moved = {name for name, message in made.items() if row(message)["queue"] == "there"}
    assert moved == {"dead", "waiting", "delayed", "ready"}
    assert {each["id"]: each["why"] for each in ended.document["refused"]} == {
        made["done"].pk: "is done already",
        made["stuck"].pk: "is claimed",
        made["running"].pk: "is claimed",
        there.pk: "is in that queue already",
    }
    assert set(MessageEvent.objects.filter(kind="moved").values_list("actor", flat=True)) == {"ann"}


@pytest.mark.parametrize("state", VERBS["move"].states)
def test_all_of_a_state_go_to_another_queue_and_nothing_else(state: str) -> None:
    made, others = one_of_each(), one_of_each("there")
    ended = move("--queue", QUEUE, "--state", state, "--all", "--to", "there", "--yes")
    assert ended.out.startswith("1 message ")
    assert [name for name, message in made.items() if row(message)["queue"] == "there"] == [state]
    assert {name: state_of(message) for name, message in others.items()} == {name: name for name in others}


def test_a_queue_that_is_nowhere_is_refused_unless_it_is_to_be_new() -> None:
    message = waiting()
    ended = move(str(message.pk), "--to", "emials", "--yes")
    assert (ended.code, row(message)["queue"]) == (3, QUEUE)
    assert "There is no queue 'emials'" in ended.err
    assert move(str(message.pk), "--to", QUEUE, "--yes").code == 1
    assert move(str(message.pk), "--to", "dbqueue.operations", "--yes").code == 2
    assert move("--queue", QUEUE, "--state", "ready", "--all", "--to", QUEUE, "--yes").code == 2
    assert move(str(message.pk), "--to", "emials", "--create", "--yes").code == 0
    assert row(message)["queue"] == "emials"


def test_a_holder_loses_what_is_requeued_or_dropped() -> None:
    for verb in (requeue, lambda *arguments: drop(*arguments, *WHY)):
        message = held()
        assert verb(str(message.pk), "--yes").code == 0
        assert Message.objects.ack([message]) == [message]
        Message.objects.all().delete()


# -- all of a queue ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "state"),
    [(verb, state) for verb in ("requeue", "drop") for state in VERBS[verb].states],
)
def test_all_of_a_state_are_moved_and_nothing_else(verb: str, state: str) -> None:
    made, others = one_of_each(), one_of_each("other")
    move_all, reason, then = {"requeue": (requeue, (), "ready"), "drop": (drop, WHY, "done")}[verb]
    ended = move_all("--queue", QUEUE, "--state", state, "--all", "--yes", *reason)
    assert ended.out.startswith(f"1 message {verb}")
    for name, message in made.items():
        assert state_of(message) == (then if name == state else name)
    assert {name: state_of(message) for name, message in others.items()} == {name: name for name in others}


def test_many_go_in_steps_and_a_key_in_use_stops_no_other() -> None:
    messages = held_many(2 * bulk.STEP + 3)
    Message.objects.reject(messages, "unwanted")
    keyed = dead(key="k")
    waiting(key="k")
    ended = requeue("--queue", QUEUE, "--state", "dead", "--all", "--yes", "--json")
    assert (ended.code, ended.document["moved"], ended.document["left_alone"]) == (1, len(messages), 1)
    assert [message.pk for message in Message.objects.dead()] == [keyed.pk]


def test_a_limit_takes_the_first_of_the_queues_order() -> None:
    low, high, late = waiting(priority=-1), waiting(priority=5), waiting(priority=5)
    assert drop("--queue", QUEUE, "--state", "ready", "--limit", "2", "--yes", *WHY).out == "2 messages dropped.\n"
    assert [state_of(message) for message in (low, high, late)] == ["ready", "done", "done"]


def test_messages_that_come_in_between_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    old = [waiting() for _ in range(3)]
    step, newcomers = mover.move_page, []

    def with_a_newcomer(*arguments: Any, **named: Any) -> MoveOutcome:
        newcomers.append(waiting(priority=-50))  # further on in the walk
        return step(*arguments, **named)

    monkeypatch.setattr(mover, "move_page", with_a_newcomer)
    assert drop("--queue", QUEUE, "--state", "ready", "--all", "--yes", *WHY).out == "3 messages dropped.\n"
    assert {state_of(message) for message in old} == {"done"}
    assert newcomers
    assert {state_of(message) for message in newcomers} == {"ready"}


def test_what_left_the_state_between_the_read_and_the_lock_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    lively, late = held_many(2)
    for message in (lively, late):
        let_pass(message, 61)
    find = bulk.find

    def before_an_extension(*arguments: Any) -> bulk.Found:
        found = find(*arguments)
        lively.extend(600)  # the same claim, under the same token: its holder lives
        return found

    monkeypatch.setattr(bulk, "find", before_an_extension)
    ended = requeue("--queue", QUEUE, "--state", "stuck", "--all", "--yes", "--json")
    assert (ended.code, ended.document["moved"], ended.document["left_alone"]) == (1, 1, 1)
    assert [state_of(message) for message in (lively, late)] == ["running", "ready"]
    lively.ack()


if settings.TEST_DATABASE != "sqlite":

    @pytest.mark.django_db(transaction=True)
    def test_what_somebody_has_locked_is_passed_by_and_reported(other_connection: BaseDatabaseWrapper) -> None:
        busy, free = dead(), dead()
        other_connection.set_autocommit(False)
        with other_connection.cursor() as cursor:
            cursor.execute(f"SELECT id FROM {Message._meta.db_table} WHERE id = %s FOR UPDATE", [busy.pk])
        try:
            ended = requeue("--queue", QUEUE, "--state", "dead", "--all", "--yes")
            assert (ended.code, ended.out) == (1, "1 message requeued.\n")
            assert "1 left alone: moved in the meantime, locked by others" in ended.err
            named = requeue(str(busy.pk), "--yes")
            assert f"#{busy.pk}: is locked" in named.err
        finally:
            other_connection.rollback()
        assert [state_of(message) for message in (busy, free)] == ["dead", "ready"]
        assert requeue(str(busy.pk), "--yes").code == 0
