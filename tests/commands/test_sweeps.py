"""``queue_requeue`` and ``queue_drop``: exactly what was named, in steps, asked for, told and logged."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from django_dbqueue import Envelope
from django_dbqueue.lifecycle import bulk, sweep
from django_dbqueue.lifecycle.streams import PARKED
from django_dbqueue.models import Message, MessageEvent
from tests.commands.running import Ended, run
from tests.factories import QUEUE, dead, done, held, held_many, let_pass, row, rows, stuck, waiting

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

pytestmark = pytest.mark.django_db
WHY = ("--reason", "not wanted")


def requeue(*arguments: str) -> Ended:
    return run("queue_requeue", *arguments)


def drop(*arguments: str) -> Ended:
    return run("queue_drop", *arguments)


def state_of(message: Message) -> str:
    for state in ("ready", "delayed", "running", "stuck", "dead", "done"):
        if getattr(Message.objects, state)().filter(pk=message.pk).exists():
            return state
    raise AssertionError(f"message {message.pk} is nowhere")


def one_of_each(queue: str = QUEUE) -> dict[str, Message]:
    made = {"stuck": stuck(queue=queue)}
    let_pass(made["stuck"], 1)
    made |= {"running": held(queue=queue), "dead": dead(queue=queue), "done": done(queue=queue)}
    return made | {"delayed": waiting(queue=queue, delay=3600), "ready": waiting(queue=queue)}


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
    assert (ended.document["moved"], ended.document["left_alone"]) == (3, 4)
    assert {each["id"]: each["why"] for each in ended.document["refused"]} == {
        made["done"].pk: "is done already",
        made["delayed"].pk: "is neither taken nor dead",
        made["ready"].pk: "is neither taken nor dead",
        gone: "is not there",
    }


def test_a_requeue_whose_key_is_taken_is_refused_by_name() -> None:
    buried = dead(key="k")
    waiting(key="k")
    ended = requeue(str(buried.pk), "--yes")
    assert (ended.code, ended.out) == (1, "0 messages requeued.\n")
    assert ended.err == f"#{buried.pk}: a newer live message has its key 'k'\n"
    assert state_of(buried) == "dead"


def test_named_messages_are_dropped_with_who_and_why() -> None:
    made = one_of_each()
    ids = [str(made[state].pk) for state in ("stuck", "running", "dead", "delayed", "ready")]
    assert drop(*ids, *WHY, "--by", "ann", "--yes").out == "5 messages dropped.\n"
    assert {state_of(message) for message in made.values()} == {"done"}
    assert row(made["ready"])["error"] == "Dropped by ann: not wanted"
    assert row(made["done"])["error"] is None
    told = MessageEvent.objects.filter(message_id=made["dead"].pk, kind="dropped")
    assert [event.actor for event in told] == ["ann"]


def test_a_holder_loses_what_is_requeued_or_dropped() -> None:
    for verb in (requeue, lambda *arguments: drop(*arguments, *WHY)):
        message = held()
        assert verb(str(message.pk), "--yes").code == 0
        assert Message.objects.ack([message]) == [message]
        Message.objects.all().delete()


# -- all of a queue ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", bulk.MATCHING["requeue"])
def test_all_of_a_state_are_requeued_and_nothing_else(state: str) -> None:
    made, others = one_of_each(), one_of_each("other")
    assert requeue("--queue", QUEUE, "--state", state, "--all", "--yes").out == "1 message requeued.\n"
    for name, message in made.items():
        assert state_of(message) == ("ready" if name == state else name)
    assert {name: state_of(message) for name, message in others.items()} == {name: name for name in others}


@pytest.mark.parametrize("state", bulk.MATCHING["drop"])
def test_all_of_a_state_are_dropped_and_nothing_else(state: str) -> None:
    made, others = one_of_each(), one_of_each("other")
    assert drop("--queue", QUEUE, "--state", state, "--all", "--yes", *WHY).out == "1 message dropped.\n"
    for name, message in made.items():
        assert state_of(message) == ("done" if name == state else name)
    assert {name: state_of(message) for name, message in others.items()} == {name: name for name in others}


def test_many_go_in_steps_and_a_taken_key_stops_nobody() -> None:
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


def test_messages_that_come_meanwhile_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    old = [waiting() for _ in range(3)]
    step, newcomers = sweep._step_by_state, []

    def with_a_newcomer(*arguments: Any) -> bulk.Step:
        newcomers.append(waiting(priority=-50))  # further on in the walk
        return step(*arguments)

    monkeypatch.setattr(sweep, "_step_by_state", with_a_newcomer)
    assert drop("--queue", QUEUE, "--state", "ready", "--all", "--yes", *WHY).out == "3 messages dropped.\n"
    assert {state_of(message) for message in old} == {"done"}
    assert newcomers
    assert {state_of(message) for message in newcomers} == {"ready"}


def test_what_left_the_state_between_the_look_and_the_lock_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    lively, late = held_many(2, lease=0)
    for message in (lively, late):
        let_pass(message, 1)
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
    def test_what_somebody_has_locked_is_passed_by_and_told(other_connection: BaseDatabaseWrapper) -> None:
        busy, free = dead(), dead()
        other_connection.set_autocommit(False)
        with other_connection.cursor() as cursor:
            cursor.execute(f"SELECT id FROM {Message._meta.db_table} WHERE id = %s FOR UPDATE", [busy.pk])
        try:
            ended = requeue("--queue", QUEUE, "--state", "dead", "--all", "--yes")
            assert (ended.code, ended.out) == (1, "1 message requeued.\n")
            assert "1 left alone: moved meanwhile, locked by others" in ended.err
            named = requeue(str(busy.pk), "--yes")
            assert named.err == f"#{busy.pk}: is locked by another transaction, try again\n"
        finally:
            other_connection.rollback()
        assert [state_of(message) for message in (busy, free)] == ["dead", "ready"]
        assert requeue(str(busy.pk), "--yes").code == 0


# -- asked and told ---------------------------------------------------------------------------------------


def test_a_dry_run_counts_and_changes_nothing() -> None:
    for _ in range(4):
        dead()
    made = one_of_each()
    before = rows()
    every = ("--queue", QUEUE, "--state", "dead", "--dry-run")
    assert requeue(*every).out == "5 would be moved; nothing was changed.\n"
    assert requeue(*every, "--limit", "2").out == "2 would be moved; nothing was changed.\n"
    assert drop(*every, "--json").document == {"verb": "drop", "dry_run": True, "count": 5}
    ids = [str(message.pk) for message in made.values()]
    assert requeue(*ids, "--dry-run", "--json").document["count"] == 3
    assert drop(*ids, "--dry-run", "--json").document["count"] == 5
    assert rows() == before


def test_nothing_is_done_where_nobody_can_be_asked() -> None:
    message = dead()
    for ended in (requeue(str(message.pk)), drop("--queue", QUEUE, "--state", "dead", "--all", *WHY)):
        assert (ended.code, ended.out) == (2, "")
        assert "add --yes" in ended.err
    assert state_of(message) == "dead"


@pytest.mark.parametrize("verb", ["queue_requeue", "queue_drop"])
def test_nothing_to_do_is_an_exit_code_and_a_sentence(verb: str) -> None:
    waiting(queue="other", delay=3600)
    reason = WHY if verb == "queue_drop" else ()
    for queue in ("other", "nobody"):
        for asked in ((), ("--dry-run",)):
            ended = run(verb, "--queue", queue, "--state", "dead", "--all", "--yes", *reason, *asked)
            assert (ended.code, ended.out, ended.err) == (3, "", f"No message of queue '{queue}' is dead.\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Name ids, or a queue"),
        (["1", "--queue", QUEUE, "--state", "dead", "--all"], "Name ids, or a queue"),
        (["1", "--all"], "go with --queue"),
        (["--queue", QUEUE, "--all"], "Say by --state"),
        (["--queue", QUEUE, "--state", "dead"], "Say --all, or by --limit"),
        (["--queue", QUEUE, "--state", "dead", "--all", "--limit", "3"], "not allowed with"),
        (["--queue", QUEUE, "--state", "done", "--all"], "invalid choice"),
        (["--queue", "no queue", "--state", "dead", "--all"], "'no queue' is no queue name"),
        (["--queue", "", "--state", "dead", "--all"], "'' is no queue name"),
        (["--queue", QUEUE, "--state", "dead", "--limit", "0"], "'0' is not a whole number"),
        (["0"], "'0' is not a whole number"),
        (["-7"], "'-7' is not a whole number"),
        (["1.5"], "'1.5' is not a whole number"),
        (["१"], "is not a whole number"),
        (["9" * 19], "is not a whole number"),
        (["9" * 5_000], "is not a whole number"),
        (["1", "--by", " "], "--by takes a name"),
        (["1", "--database", "defualt"], "Did you mean 'default'?"),
    ],
)
@pytest.mark.parametrize("verb", ["queue_requeue", "queue_drop"])
def test_a_wrong_order_is_refused_by_name_and_changes_nothing(verb: str, arguments: list[str], says: str) -> None:
    message = dead()
    ended = run(verb, *arguments, "--yes", *(WHY if verb == "queue_drop" else ()))
    assert (ended.code != 0, ended.out) == (True, "")
    assert says in ended.err
    assert state_of(message) == "dead"


def test_a_queue_that_may_have_been_meant_is_proposed() -> None:
    dead(queue="emails")
    for asked in (
        run("queue_requeue", "--queue", "emials", "--state", "dead", "--all", "--yes"),
        run("queue_requeue", "--queue", "emials", "--state", "dead", "--dry-run"),
        run("queue_purge", "emials", "--older-than", "0", "--yes"),
        run("queue_purge", "emials", "--older-than", "0", "--dry-run"),
        run("queue_peek", "emials"),
    ):
        assert (asked.code, asked.err.endswith(" Did you mean 'emails'?\n")) == (3, True)


@pytest.mark.django_db(transaction=True)
def test_another_thread_than_the_first_can_order_it_too() -> None:
    message = dead()
    ended: list[Ended] = []

    def order() -> None:
        try:
            ended.append(requeue(str(message.pk), "--yes"))
        finally:
            connections.close_all()

    thread = threading.Thread(target=order)
    thread.start()
    thread.join(60)
    assert [each.out for each in ended] == ["1 message requeued.\n"]


def test_a_drop_without_a_reason_is_refused() -> None:
    message = dead()
    for reason in ((), ("--reason", " ")):
        ended = drop(str(message.pk), "--yes", *reason)
        assert (ended.code, "--reason" in ended.err) == (2, True)
    assert state_of(message) == "dead"


def test_what_was_done_is_logged_with_who_and_why(caplog: pytest.LogCaptureFixture) -> None:
    ids = [str(dead().pk), str(dead(queue="other").pk)]
    with caplog.at_level(logging.INFO, "django_dbqueue"):
        drop(*ids, "--reason", "line is down", "--by", "ann", "--yes")
        requeue(ids[0], "--yes")  # which can't be done
    told = [record for record in caplog.records if getattr(record, "event", "") == "operator"]
    assert sorted(record.getMessage() for record in told) == [
        "drop by ann: 1 message of other (line is down)",
        f"drop by ann: 1 message of {QUEUE} (line is down)",
    ]


def test_what_a_stream_holds_is_left_to_the_stream() -> None:
    parked, taken = held_many(2)
    Message.objects.filter(pk=parked.pk).update(available_at=PARKED)
    assert requeue("--queue", QUEUE, "--state", "running", "--all", "--yes").out == "1 message requeued.\n"
    assert [state_of(message) for message in (parked, taken)] == ["running", "ready"]


def test_of_many_refusals_the_first_are_told_and_the_rest_are_counted() -> None:
    message = dead()
    ids = [str(number) for number in range(message.pk, message.pk + 2_000)]
    ended = requeue(*ids, "--yes")
    assert ended.out == "1 message requeued.\n"
    assert ended.err.count("is not there") == 20
    assert "… and 1,979 more were left alone." in ended.err


def test_payloads_are_not_read() -> None:
    Message.objects.enqueue_many([Envelope("secret", delay=60) for _ in range(3)], queue=QUEUE)
    with CaptureQueriesContext(connection) as queries:
        drop("--queue", QUEUE, "--state", "delayed", "--all", "--yes", *WHY)
    assert not [query["sql"] for query in queries if "body" in query["sql"]]
