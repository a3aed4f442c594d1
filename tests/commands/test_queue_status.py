"""``manage.py queue_status``: every queue at a glance, for people, programs and monitors."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue import Envelope
from django_dbqueue.consumers import consumer
from django_dbqueue.models import Message, Queue, Worker
from django_dbqueue.models.fields import DbNow, clock
from tests.commands.running import Ended, run
from tests.factories import QUEUE, dead, done, held, let_pass, let_pause_end, rows, stuck, waiting

pytestmark = pytest.mark.django_db

LONG = timedelta(days=2, hours=3)
LONG_TEXT = ["2", "d", "3", "h"]
"""As it is told, in its two largest units: for an hour, as a minute would be for a second."""


def status(*arguments: str) -> Ended:
    return run("queue_status", *arguments)


def seen(*arguments: str) -> dict[str, Any]:
    return {each["queue"]: each for each in status(*arguments, "--json").document["queues"]}


def beating(queues: str, *, threads: int = 1) -> Worker:
    number = Worker.objects.count() + 1
    return Worker.objects.create(id=number, host="host", pid=number, queues=queues, threads=threads)


def one_of_each() -> Message:
    late = stuck()
    let_pass(late, 5)
    held()
    dead()
    done()
    waiting(delay=3600)
    old = waiting()
    let_pass(old, LONG.total_seconds())
    waiting()
    return old


def test_a_line_shows_how_deep_a_queue_is_and_who_serves_it() -> None:
    one_of_each()
    beating(f"{QUEUE},idle")
    beating(QUEUE)
    let_pass(waiting(queue="orphans"), LONG.total_seconds())
    before = rows()
    ended = status()
    assert (ended.code, ended.err) == (0, "")
    head, idle, orphans, tests = ended.out.splitlines()
    assert head.split() == [
        *("QUEUE", "READY", "DELAYED", "WAITING", "RUNNING", "STUCK", "DEAD"),
        *("OLDEST", "READY", "WORKERS", "CLAIMS"),
    ]
    assert idle.split() == ["idle", "0", "0", "0", "0", "0", "0", "-", "1", "open"]
    assert orphans.split() == ["orphans", "1", "0", "0", "0", "0", "0", *LONG_TEXT, "-", "no", "worker"]
    assert tests.split() == [QUEUE, "2", "1", "0", "1", "1", "1", *LONG_TEXT, "2", "open"]
    assert rows() == before
    assert Queue.objects.count() == 0


def test_json_is_one_document_with_everything() -> None:
    old = one_of_each()
    beating(QUEUE, threads=4)
    document = status("--json").document
    at = datetime.fromisoformat(document["at"])
    assert abs(at - clock("default")) < timedelta(minutes=1)
    [queue] = document.pop("queues")
    assert document == {"database": "default", "at": document["at"], "cap": 10_000, "fine": False}
    due = Message.objects.get(pk=old.pk).available_at
    assert datetime.fromisoformat(queue.pop("oldest_ready_at")) == due
    assert queue.pop("oldest_ready_seconds") == pytest.approx((at - due).total_seconds())
    assert queue == {
        "queue": QUEUE,
        "ready": 2,
        "delayed": 1,
        "waiting": 0,
        "running": 1,
        "stuck": 1,
        "dead": 1,
        "capped": [],
        "paused": False,
        "paused_at": None,
        "paused_until": None,
        "paused_by": "",
        "pause_reason": "",
        "workers": 1,
        "threads": 4,
        "streams": [],
        "wrong": ["stuck", "dead"],
    }


def test_a_paused_queue_shows_since_when_by_whom_and_why() -> None:
    waiting()
    Queue.objects.pause(QUEUE, by="ann", reason="line\x1b[2J is down")
    Queue.objects.update(paused_at=DbNow() - LONG)
    assert status().out.splitlines()[1].endswith("  paused for 2 d 3 h by ann: line\\x1b[2J is down")
    queue = seen()[QUEUE]
    assert (queue["paused"], queue["paused_by"], queue["pause_reason"]) == (True, "ann", "line\x1b[2J is down")


def test_a_pause_with_an_end_shows_until_when_and_is_nothing_once_that_has_passed() -> None:
    beating(QUEUE)
    Queue.objects.pause(QUEUE, for_=3_600, by="ann", reason="tea")
    end = Queue.objects.get().paused_until
    line = f"  paused for 2 d 3 h by ann, until {end:%Y-%m-%d %H:%M:%S} UTC: tea"
    Queue.objects.update(paused_at=DbNow() - LONG)
    assert status().out.splitlines()[1].endswith(line)
    assert seen()[QUEUE]["paused_until"] == end.isoformat().replace("+00:00", "Z")
    assert wrong() == {QUEUE: ["paused"]}
    let_pause_end()
    assert status().out.splitlines()[1].endswith("  open")
    queue = seen()[QUEUE]
    assert [queue[name] for name in ("paused", "paused_at", "paused_until", "paused_by", "pause_reason")] == [
        False, None, None, "", "",
    ]  # fmt: skip
    assert wrong() == {}


def test_counts_stop_at_a_cap_and_report_it() -> None:
    Message.objects.enqueue_many([Envelope(n) for n in range(5)], queue=QUEUE)
    assert status("--cap", "4").out.splitlines()[1].split()[1] == "4+"
    queue = seen("--cap", "4")[QUEUE]
    assert (queue["ready"], queue["capped"]) == (4, ["ready"])
    assert seen("--cap", "5")[QUEUE]["capped"] == []


def test_only_the_queues_that_are_named_are_shown() -> None:
    for name in ("a", "b", "c"):
        waiting(queue=name)
    assert list(seen("c", "a", "c")) == ["c", "a"]


def test_an_unknown_queue_is_an_exit_code_and_a_sentence() -> None:
    waiting(queue="emails")
    ended = status("emails", "emials")
    assert (ended.code, ended.out) == (3, "")
    assert "There is no queue 'emials'" in ended.err
    assert "Did you mean 'emails'?" in ended.err


def test_a_queue_that_this_project_declares_is_known_before_its_first_message(registry: dict[str, Any]) -> None:
    consumer("by-consumer")(lambda _message: None)
    assert status("by-consumer", "--check").code == 0
    assert status("by-setting", "--check").code == 3
    with override_settings(DBQUEUE={"QUEUES": {"by-setting": {}}}):
        assert status("by-setting", "--check").code == 0


def test_where_there_is_no_queue_at_all_it_reports_that() -> None:
    assert "no queues yet" in status().out
    assert status("--json").document["queues"] == []
    assert status("--check").code == 0


def wrong(*arguments: str) -> dict[str, list[str]]:
    ended = status("--check", "--json", *arguments)
    found = {each["queue"]: each["wrong"] for each in ended.document["queues"] if each["wrong"]}
    assert ended.code == (1 if found else 0)
    assert ended.document["fine"] is not bool(found)
    return found


def test_a_check_ends_with_1_if_something_is_wrong_and_names_it() -> None:
    beating("fine,stuck,dead,paused")
    waiting(queue="fine")
    done(queue="nobody")  # nothing waits there
    assert wrong() == {}
    waiting(queue="orphans", delay=3600)
    let_pass(stuck(queue="stuck"), 5)
    dead(queue="dead")
    Queue.objects.pause("paused")
    assert wrong() == {"orphans": ["no-worker"], "stuck": ["stuck"], "dead": ["dead"], "paused": ["paused"]}
    ended = status("--check")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "dead: dead\norphans: no-worker\npaused: paused\nstuck: stuck\n"
    assert status().code == 0  # who only looks is told nothing by the code


def test_a_check_ignores_what_it_is_ordered_to() -> None:
    dead()
    waiting()
    assert wrong("--ignore", "dead") == {QUEUE: ["no-worker"]}
    assert wrong("--ignore", "dead, no-worker") == {}
    ended = status("--check", "--ignore", "dead, no-worker")
    assert (ended.code, ended.out, ended.err) == (0, "", ""), "cron mails whatever is printed"


def test_a_message_that_waits_too_long_is_wrong() -> None:
    beating(QUEUE)
    let_pass(waiting(), 100)
    assert wrong("--max-age", "90") == {QUEUE: ["old"]}
    assert wrong("--max-age", "1000") == {}


def test_a_worker_that_stopped_its_heartbeat_serves_no_queue() -> None:
    waiting()
    Worker.objects.filter(pk=beating(QUEUE).pk).update(beat_at=DbNow() - timedelta(minutes=5))
    assert wrong() == {QUEUE: ["no-worker"]}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["no queue"], "'no queue' is not a queue name"),
        ([""], "'' is not a queue name"),
        (["--cap", "0"], "'0' is not a whole number"),
        (["--watch", "--check"], "leave out --watch"),
        (["--interval", "3"], "--interval needs --watch"),
        (["--watch", "--interval", "0"], "an interval below 0.1 seconds"),
        (["--watch", "--interval", "soon"], "'soon' is not a number of seconds"),
        (["--ignore", "dead"], "--ignore needs --check"),
        (["--check", "--ignore", "daed"], "not 'daed'"),
        (["--database", "defualt"], "Did you mean 'default'?"),
    ],
)
def test_a_wrong_option_is_refused_by_name(arguments: list[str], error: str) -> None:
    ended = status(*arguments)
    assert (ended.code != 0, ended.out) == (True, "")
    assert error in ended.err


def test_a_document_can_be_read_by_anything() -> None:
    Queue.objects.pause(QUEUE, by="ü", reason="\u2028\x07")
    assert status("--json").out.isascii()
    assert json.loads(status("--json").out)["queues"][0]["paused_by"] == "ü"
