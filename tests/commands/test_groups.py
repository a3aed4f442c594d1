"""Groups from a terminal: ``queue_status --groups``, ``queue_pause --group``, ``queue_resume --group``."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue.models import Group, Message, Queue
from tests.commands.running import Ended, run
from tests.factories import QUEUE, claim_one, claimed, let_pass

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db


def send(group: str = "a", queue: str = QUEUE, **options: Any) -> Message:
    return Message.objects.enqueue(1, queue=queue, group=group, **options)


def status(*arguments: str) -> Ended:
    return run("queue_status", "--groups", *arguments)


def test_a_line_shows_what_waits_and_runs_and_what_holds_it(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {"ledger": {"on_dead": "hold", "group_rate": "5/s"}}}
    send()
    let_pass(send(), 51 * 3_600)
    send()
    Group.objects.limit(QUEUE, "wide", 1_000)
    Group.objects.rate(QUEUE, "wide", "100/m")
    dead = send("b", "ledger")
    claim_one("ledger").reject("unwanted")
    let_pass(dead, 5)
    Group.objects.pause("ledger", "c\x1b", by="ann", reason="line\x1b[2J")
    ended = status()
    assert (ended.code, ended.err) == (0, "")
    head, held, paused, waits, wide = ended.out.splitlines()
    assert head.split() == ["QUEUE", "GROUP", "WAITING", "OUT", "LIMIT", "RATE", "OLDEST", "STATE"]
    assert held.split() == ["ledger", "b", "0", "1", "1", "5/s", "-", "held", "by", f"#{dead.pk}"]
    assert paused.split()[:7] == ["ledger", "c\\x1b", "0", "0", "1", "5/s", "-"]
    assert paused.endswith("s by ann: line\\x1b[2J")
    assert waits.split() == [QUEUE, "a", "2", "1", "1", "-", "2", "d", "3", "h", "open"]
    assert wide.split() == [QUEUE, "wide", "0", "0", "1,000", "100/m", "-", "open"]
    assert len(status("ledger").out.splitlines()) == 3


def test_json_is_one_document_with_everything() -> None:
    messages = [send() for _ in range(4)]
    Group.objects.limit(QUEUE, "a", 2)
    Group.objects.rate(QUEUE, "a", "10/s")
    document = status("--json", "--cap", "1").document
    [group] = document.pop("groups")
    assert document == {"database": "default", "at": document["at"], "cap": 1, "more": False}
    oldest = datetime.fromisoformat(group.pop("oldest_at"))
    assert oldest == Message.objects.get(pk=messages[2].pk).created_at
    assert group == {
        "queue": QUEUE, "group": "a", "waiting": 1, "out": 1, "capped": ["waiting", "out"], "limit": 2, "own_limit": 2,
        "rate": "10/s", "own_rate": "10/s", "held_by": None, "paused": False, "paused_at": None, "paused_by": "",
        "pause_reason": "",
    }  # fmt: skip


def test_without_groups_it_reports_that_and_odd_options_are_refused() -> None:
    Message.objects.enqueue(1, queue=QUEUE)
    assert status().out.startswith("No group")
    for odd in (["--check"], ["--max-age", "3"]):
        ended = status(*odd)
        assert (ended.code, ended.out) == (2, "")
        assert "leave out --groups" in ended.err
    assert status("none").code == 3


def test_more_groups_than_are_listed_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_dbqueue.management.group_status.LISTED", 2)
    for name in "abc":
        send(name)
    assert "more groups" in status().out.splitlines()[-1]
    assert status("--json").document["more"]


def test_a_paused_group_gives_nothing_until_it_is_resumed_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    send()
    Message.objects.enqueue(2, queue=QUEUE, group="b")
    with caplog.at_level(logging.INFO, "django_dbqueue"):
        ended = run("queue_pause", QUEUE, "--group", "a", "--reason", "the bank is down", "--by", "ann")
    assert (ended.code, ended.err) == (0, "")
    assert "paused: the bank is down" in ended.out
    assert "pause by ann: group 'a' of queue tests (the bank is down)" in caplog.text
    assert claimed() == [2]
    row = Group.objects.get()
    assert (row.is_paused, row.paused_by, row.pause_reason) == (True, "ann", "the bank is down")
    assert not Queue.objects.exists()
    again = run("queue_pause", QUEUE, "--group", "a", "--reason", "other", "--by", "bob", "--json").document
    assert (again["changed"], again["paused_by"], again["group"], again["queue"]) == (False, "ann", "a", QUEUE)
    text = run("queue_pause", QUEUE, "--group", "a", "--reason", "other").out
    assert text.startswith(f"Group a of queue {QUEUE} is already paused, by ann since 20")
    assert run("queue_resume", QUEUE, "--group", "a").out.endswith("open again.\n")
    assert run("queue_resume", QUEUE, "--group", "a").out.endswith("already open.\n")
    assert claimed() == [1]


def test_a_group_that_is_not_there_needs_create() -> None:
    send()
    why = ("--reason", "why")
    ended = run("queue_pause", QUEUE, "--group", "A", *why)
    assert (ended.code, ended.out) == (3, "")
    assert f"Queue '{QUEUE}' has no group 'A'" in ended.err
    assert run("queue_resume", QUEUE, "--group", "A").code == 3
    assert run("queue_pause", "none", "--group", "a", *why).code == 3
    assert run("queue_pause", QUEUE, "other", "--group", "a", "--create", *why).code == 2
    assert run("queue_pause", QUEUE, "--group", "", *why).code == 2
    assert not Group.objects.exists()
    assert run("queue_pause", QUEUE, "--group", "A", "--create", *why).code == 0
    assert Group.objects.get().name == "A"
