"""``queue_pause`` and ``queue_resume``: who was first, why, and names that are meant."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.test import override_settings

from django_dbqueue.models import Queue, Worker
from django_dbqueue.models.fields import clock
from tests.commands.running import Ended, run
from tests.factories import QUEUE, claimed, waiting
from tests.patience import patience

pytestmark = pytest.mark.django_db


def pause(*arguments: str) -> Ended:
    return run("queue_pause", *arguments)


def resume(*arguments: str) -> Ended:
    return run("queue_resume", *arguments)


def test_a_paused_queue_gives_nothing_until_it_is_resumed() -> None:
    waiting(payload=1)
    ended = pause(QUEUE, "--reason", "line is down", "--by", "ann")
    assert (ended.code, ended.err) == (0, "")
    assert f"{QUEUE} is paused: line is down" in ended.out
    assert claimed() == []
    row = Queue.objects.get(pk=QUEUE)
    assert (row.is_paused, row.paused_by, row.pause_reason) == (True, "ann", "line is down")
    assert abs(clock("default") - row.paused_at) < timedelta(minutes=1)
    assert resume(QUEUE).out == f"Queue {QUEUE} is open again.\n"
    assert claimed() == [1]


def test_what_a_terminal_of_another_code_sends_is_kept_as_far_as_it_can_be_read() -> None:
    waiting()
    latin = "St\udcf6rung"  # as Python reads the byte of an ö that is no UTF-8
    assert pause(QUEUE, "--reason", latin, "--by", latin).code == 0
    row = Queue.objects.get(pk=QUEUE)
    assert (row.pause_reason, row.paused_by) == ("St\\udcf6rung", "St\\udcf6rung")


def test_who_does_it_is_the_account_and_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting()
    monkeypatch.setenv("SUDO_USER", "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "web-3")
    pause(QUEUE, "--reason", "why")
    assert Queue.objects.get(pk=QUEUE).paused_by == "ann@web-3"


def test_an_account_that_has_no_name_is_given_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting()
    for name in ("SUDO_USER", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_001)
    monkeypatch.setattr("socket.gethostname", lambda: "pod-1")
    pause(QUEUE, "--reason", "why")
    assert Queue.objects.get(pk=QUEUE).paused_by == "uid 4000000001@pod-1"


def test_the_first_who_paused_it_stays_and_the_second_learns_it() -> None:
    waiting()
    pause(QUEUE, "--reason", "first", "--by", "ann")
    ended = pause(QUEUE, "--reason", "second", "--by", "ben")
    assert ended.code == 0
    assert ended.out.startswith(f"Queue {QUEUE} is already paused, by ann since ")
    assert ended.out.endswith(": first\n")
    again = pause(QUEUE, "--reason", "third", "--json").document["queues"][0]
    assert (again["changed"], again["paused"], again["paused_by"], again["pause_reason"]) == (
        False,
        True,
        "ann",
        "first",
    )


def test_json_is_one_document_for_all_queues() -> None:
    waiting()
    waiting(queue="other")
    document = pause(QUEUE, "other", QUEUE, "--reason", "why", "--by", "ann", "--json").document
    assert document["verb"] == "pause"
    assert [(each["queue"], each["changed"]) for each in document["queues"]] == [(QUEUE, True), ("other", True)]
    opened = resume("other", "--json").document["queues"]
    assert opened == [
        {
            "queue": "other", "changed": True, "paused": False, "paused_at": None, "paused_until": None,
            "paused_by": "", "pause_reason": "",
        }
    ]  # fmt: skip


def test_an_open_queue_is_open_already_and_gets_no_row() -> None:
    waiting()
    assert resume(QUEUE).out == f"Queue {QUEUE} is already open.\n"
    assert Queue.objects.count() == 0


def test_an_unknown_name_is_refused_and_none_is_switched() -> None:
    waiting(queue="emails")
    ended = pause("emails", "emials", "--reason", "why")
    assert (ended.code, ended.out) == (3, "")
    assert "Did you mean 'emails'?" in ended.err
    assert resume("emials").code == 3
    assert Queue.objects.count() == 0
    assert pause("emials", "--reason", "why", "--create").code == 0
    assert Queue.objects.get().pk == "emials"


@override_settings(DBQUEUE={"QUEUES": {"declared": {}}})
def test_a_queue_of_the_settings_or_of_a_worker_is_known_before_its_first_message() -> None:
    Worker.objects.create(id=1, host="host", pid=1, queues="served,other", threads=1)
    assert pause("declared", "served", "--reason", "why").code == 0
    assert Queue.objects.paused_names() == {"declared", "served"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "queue"),
        ([QUEUE], "--reason"),
        ([QUEUE, "--reason", ""], "--reason takes 1 to 500 characters"),
        ([QUEUE, "--reason", "x" * 501], "--reason takes 1 to 500 characters"),
        (["no queue", "--reason", "why"], "'no queue' is not a queue name"),
        ([QUEUE, "--reason", "why", "--by", "x" * 151], "--by takes a name"),
        ([QUEUE, "--reason", "why", "--database", "gone"], "no database 'gone'"),
    ],
)
def test_a_wrong_order_is_refused_by_name(arguments: list[str], error: str) -> None:
    waiting()
    ended = pause(*arguments)
    assert (ended.code != 0, ended.out) == (True, "")
    assert error in ended.err
    assert Queue.objects.count() == 0


def test_it_is_logged_once_with_who_and_why(caplog: pytest.LogCaptureFixture) -> None:
    waiting()
    with caplog.at_level(logging.INFO, "django_dbqueue"):
        for _ in range(2):
            pause(QUEUE, "--reason", "line is down", "--by", "ann")
        resume(QUEUE, "--by", "ben")
    logged = [record.getMessage() for record in caplog.records if getattr(record, "event", "") == "operator"]
    assert logged == [f"pause by ann: queue {QUEUE} (line is down)", f"resume by ben: queue {QUEUE}"]


def test_a_reason_can_not_steer_the_terminal() -> None:
    waiting()
    out = pause(QUEUE, "--reason", "\x1b[2Jgone\x9b31m\u202e", "--by", "\x1b]0;x\x07").out
    out += pause(QUEUE, "--reason", "again").out
    assert "\\x1b[2Jgone\\x9b31m\\u202e" in out
    assert [character for character in out if ord(character) < 32 or 127 <= ord(character) < 160] == ["\n"] * 2


if settings.TEST_DATABASE != "sqlite":

    @pytest.mark.django_db(transaction=True)
    def test_of_two_at_once_one_pauses_and_the_other_learns_it() -> None:
        waiting()
        both = threading.Barrier(2)
        ended: dict[str, Any] = {}

        def pause_as(name: str) -> None:
            try:
                both.wait(patience(30))
                ended[name] = pause(QUEUE, "--reason", name, "--by", name, "--json").document["queues"][0]
            finally:
                connections.close_all()

        threads = [threading.Thread(target=pause_as, args=(name,)) for name in ("ann", "ben")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience(60))
        assert sorted(each["changed"] for each in ended.values()) == [False, True]
        winner = Queue.objects.get(pk=QUEUE).paused_by
        assert ended[winner]["changed"]
        assert {each["paused_by"] for each in ended.values()} == {winner}
