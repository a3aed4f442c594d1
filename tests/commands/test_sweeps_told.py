"""``queue_requeue`` and ``queue_drop``: what they ask, refuse, tell and log."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from django_dbqueue import Envelope
from django_dbqueue.models import Message
from django_dbqueue.states.table import PARKED_AT
from tests.commands.running import Ended, run
from tests.commands.sweeping import WHY, drop, one_of_each, requeue, state_of
from tests.factories import QUEUE, dead, held_many, rows, waiting
from tests.patience import patience

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.django_db


def test_a_dry_run_counts_and_changes_nothing() -> None:
    for _ in range(4):
        dead()
    made = one_of_each()
    before = rows()
    every = ("--queue", QUEUE, "--state", "dead", "--dry-run")
    assert requeue(*every).out.startswith("5 would be moved")
    assert requeue(*every, "--limit", "2").out.startswith("2 would be moved")
    assert drop(*every, "--json").document == {"verb": "drop", "dry_run": True, "count": 5}
    ids = [str(message.pk) for message in made.values()]
    assert requeue(*ids, "--dry-run", "--json").document["count"] == 3
    assert drop(*ids, "--dry-run", "--json").document["count"] == 6
    assert rows() == before


def test_nothing_is_done_without_a_terminal() -> None:
    message = dead()
    for ended in (requeue(str(message.pk)), drop("--queue", QUEUE, "--state", "dead", "--all", *WHY)):
        assert (ended.code, ended.out) == (2, "")
        assert "Add --yes" in ended.err
    assert state_of(message) == "dead"


@pytest.mark.parametrize("verb", ["queue_requeue", "queue_drop"])
def test_nothing_to_do_is_an_exit_code_and_a_sentence(verb: str) -> None:
    waiting(queue="other", delay=3600)
    reason = WHY if verb == "queue_drop" else ()
    for queue in ("other", "nobody"):
        for options in ((), ("--dry-run",)):
            ended = run(verb, "--queue", queue, "--state", "dead", "--all", "--yes", *reason, *options)
            assert (ended.code, ended.out) == (3, "")
            assert f"No message of queue '{queue}'" in ended.err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "Name ids, or a queue"),
        (["1", "--queue", QUEUE, "--state", "dead", "--all"], "Name ids, or a queue"),
        (["1", "--all"], "go with --queue"),
        (["--queue", QUEUE, "--all"], "Say by --state"),
        (["--queue", QUEUE, "--state", "dead"], "Say --all, or by --limit"),
        (["--queue", QUEUE, "--state", "dead", "--all", "--limit", "3"], "not allowed with"),
        (["--queue", QUEUE, "--state", "done", "--all"], "invalid choice"),
        (["--queue", "no queue", "--state", "dead", "--all"], "'no queue' is not a queue name"),
        (["--queue", "", "--state", "dead", "--all"], "'' is not a queue name"),
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
def test_a_wrong_order_is_refused_by_name_and_changes_nothing(verb: str, arguments: list[str], error: str) -> None:
    message = dead()
    ended = run(verb, *arguments, "--yes", *(WHY if verb == "queue_drop" else ()))
    assert (ended.code != 0, ended.out) == (True, "")
    assert error in ended.err
    assert state_of(message) == "dead"


def test_a_queue_that_may_have_been_meant_is_proposed() -> None:
    dead(queue="emails")
    for ended in (
        run("queue_requeue", "--queue", "emials", "--state", "dead", "--all", "--yes"),
        run("queue_requeue", "--queue", "emials", "--state", "dead", "--dry-run"),
        run("queue_purge", "emials", "--older-than", "0", "--yes"),
        run("queue_purge", "emials", "--older-than", "0", "--dry-run"),
        run("queue_peek", "emials"),
    ):
        assert (ended.code, ended.err.endswith(" Did you mean 'emails'?\n")) == (3, True)


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
    thread.join(patience(60))
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
    logged = [record for record in caplog.records if getattr(record, "event", "") == "operator"]
    assert sorted(record.getMessage() for record in logged) == [
        "drop by ann: 1 message of other (line is down)",
        f"drop by ann: 1 message of {QUEUE} (line is down)",
    ]


def test_what_a_stream_holds_is_left_to_the_stream() -> None:
    parked, released = held_many(2)
    Message.objects.filter(pk=parked.pk).update(available_at=PARKED_AT)
    assert requeue("--queue", QUEUE, "--state", "running", "--all", "--yes").out == "1 message requeued.\n"
    assert [state_of(message) for message in (parked, released)] == ["running", "ready"]


def test_of_many_refusals_the_first_are_named_and_the_rest_are_counted() -> None:
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
