"""``queue_status --flows`` (P22)."""

from __future__ import annotations

import json

import pytest

from django_dbqueue import flow
from django_dbqueue.models import Message
from tests.commands.running import run
from tests.factories import QUEUE, claim_one

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_newest_flows_are_listed_with_how_far_they_are() -> None:
    assert "There are no flows." in run("queue_status", "--flows").out
    for name in ("older", "newer"):
        with flow(name) as f:
            parts = f.enqueue_many(range(2), queue=QUEUE)
            f.enqueue("last", queue=QUEUE, after=parts)
    claim_one().ack()
    claim_one().reject("no")
    head, newer, older = run("queue_status", "--flows").out.splitlines()
    assert head.split() == ["FLOW", "ENDED", "OF", "LEFT", "DEAD", "AGE", "NAME"]
    assert newer.split()[:5] == [f"#{f.id}", "0", "3", "3", "0"]
    assert older.split()[1:5] == ["1", "3", "1", "1"]
    assert (newer.split()[-1], older.split()[-1]) == ("newer", "older")
    shown = json.loads(run("queue_status", "--flows", "--json").out)
    one = shown["flows"][1]
    assert (one["name"], one["total"], one["finished"], one["dead"], one["left"]) == ("older", 3, 1, 1, 1)
    assert {(stage["state"], stage["messages"]) for stage in one["stages"]} == {
        ("done", 1),
        ("dead", 1),
        ("waiting", 1),
    }
    assert Message.objects.count() == 6


@pytest.mark.parametrize("odd", [[QUEUE], ["--groups"], ["--check"], ["--max-age", "3"], ["--cap", "5"]])
def test_options_that_are_about_queues_are_refused(odd: list[str]) -> None:
    Message.objects.enqueue(1, queue=QUEUE)
    ended = run("queue_status", "--flows", *odd)
    assert (ended.code, ended.out) == (2, "")
    assert "--flows shows the newest flows of all queues" in ended.err


def test_a_peek_shows_of_which_flow_a_message_is_with_its_steps() -> None:
    with flow("f") as f:
        parts = f.enqueue(1, queue=QUEUE)
        f.enqueue("last", queue=QUEUE, after=parts)
    Message.objects.enqueue("alone", queue=QUEUE)
    message = claim_one()
    message.step("pages", lambda: 3)
    shown = run("queue_peek", QUEUE, "--state", "running", "--steps").out
    assert f"flow #{f.id}" in shown
    assert "'pages'  step done" in shown
    assert f"flow #{f.id}" in run("queue_peek", QUEUE, "--state", "waiting", "--steps", "--why").out
    assert "flow" not in run("queue_peek", QUEUE).out
    read = [json.loads(run("queue_peek", QUEUE, "--state", state, "--json").out) for state in ("running", "ready")]
    assert [one["flow"] for one in read] == [f.id, None]
