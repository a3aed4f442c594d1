"""How commands end when something is not as it should be: in a sentence and a code, never in a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.test import override_settings

from django_dbqueue import Envelope
from django_dbqueue.lifecycle.archive import DoneWalk
from django_dbqueue.liveness.dead_workers import Guardian
from django_dbqueue.models import Message
from django_dbqueue.models.fields import DbNow
from django_dbqueue.operations import bulk, mover
from django_dbqueue.operations.outcome import MoveOutcome
from django_dbqueue.sessions.django_session import session_of
from tests.commands.running import hidden, run, run_alone, start
from tests.factories import QUEUE, dead, done, waiting
from tests.patience import patience

pytestmark = pytest.mark.django_db(transaction=True)
COMMANDS = {
    "queue_status": (),
    "queue_peek": (QUEUE,),
    "queue_send": (QUEUE, "1"),
    "queue_requeue": ("--queue", QUEUE, "--state", "dead", "--all", "--yes"),
    "queue_drop": ("--queue", QUEUE, "--state", "dead", "--all", "--yes", "--reason", "why"),
    "queue_purge": (QUEUE, "--older-than", "0", "--yes"),
    "queue_pause": (QUEUE, "--reason", "why"),
    "queue_resume": (QUEUE,),
}
OTHERS = {"queue_doctor": (), "queue_rescue": ()}
if settings.TEST_DATABASE != "sqlite":  # which has no stored routines to print
    OTHERS["queue_routines"] = ("print",)
every_command = pytest.mark.parametrize("name", COMMANDS)


def one_of_each() -> None:
    dead()
    done()
    waiting()


@pytest.mark.parametrize("name", [*(pytest.param(name, marks=pytest.mark.once) for name in COMMANDS), *OTHERS])
def test_a_reader_that_went_away_is_no_reason_to_complain(name: str, worker_env: dict[str, str]) -> None:
    one_of_each()
    reader, writer = os.pipe()
    os.close(reader)
    ended = run_alone_into(writer, worker_env, name)
    assert (ended.returncode, ended.stderr) == (141, "")


def run_alone_into(writer: int, env: dict[str, str], name: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [sys.executable, "-m", "django", name, *(COMMANDS | OTHERS)[name]],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=patience(120),
        )
    finally:
        os.close(writer)


if Path("/dev/full").exists():

    @pytest.mark.once
    @pytest.mark.parametrize("name", ["queue_status", "queue_doctor", "queue_rescue"])
    def test_a_disk_that_is_full_is_named_in_a_sentence(name: str, worker_env: dict[str, str]) -> None:
        with Path("/dev/full").open("w") as full:
            ended = start(worker_env, name, stdout=full, stderr=subprocess.PIPE)
        _, complaint = ended.communicate(timeout=patience(60))
        assert ended.returncode == 1
        assert complaint.startswith("CommandError: Can't read or write: ")
        assert len(complaint.splitlines()) == 1


def test_a_check_for_the_dead_that_is_interrupted_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Guardian) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Guardian, "check", interrupted)
    ended = run("queue_rescue")
    assert (ended.code, ended.err) == (130, "Interrupted.\n")


@every_command
def test_a_server_that_is_away_is_named_in_a_sentence(name: str, worker_env: dict[str, str], tmp_path: Path) -> None:
    away = {"DBQUEUE_TEST_NAME": str(tmp_path / "nowhere" / "db.sqlite3")}
    if settings.TEST_DATABASE != "sqlite":
        url = os.environ["DBQUEUE_TEST_URL"]
        scheme, _, rest = url.partition("://")
        away = {"DBQUEUE_TEST_URL": f"{scheme}://{rest.rpartition('@')[0] or 'nobody'}@127.0.0.1:1/test"}
    ended = run_alone(worker_env | away, name, *COMMANDS[name])
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("CommandError: The queue's tables in database 'default' can't be read or written: ")
    [_what, what_to_do] = ended.err.splitlines()
    if settings.TEST_DATABASE == "sqlite":
        assert f"There is no directory {tmp_path}/nowhere for the file {tmp_path}/nowhere/db.sqlite3" in what_to_do
    else:
        assert "Is the server running, and are HOST, PORT" in what_to_do


@every_command
def test_a_database_without_the_tables_is_reported_with_what_to_do(name: str) -> None:
    with hidden("django_dbqueue_message"):
        ended = run(name, *COMMANDS[name])
    assert (ended.code, ended.out) == (1, "")
    assert "manage.py migrate --database default" in ended.err


@pytest.mark.parametrize("name", ["run_queue_worker", "queue_rescue", "queue_status"])
def test_a_database_of_another_kind_is_named_in_a_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(connections["default"], "vendor", "oracle")
        session_of.cache_clear()
        ended = run(name)
    assert (ended.code, ended.out) == (1, "")
    assert "runs on MySQL, MariaDB, PostgreSQL and SQLite, not on 'oracle'" in ended.err


@pytest.mark.parametrize(
    ("name", "arguments", "settings"),
    [
        ("queue_status", (), ["emails"]),
        ("queue_status", (), {"DATABASE": 5}),
        ("run_queue_worker", ("--drain",), ["emails"]),
        ("queue_send", (QUEUE, "1"), {"QUEUES": {QUEUE: 5}}),
        ("queue_send", (QUEUE, "1"), {"MAX_PAYLOAD_BYTES": "1 MB"}),
    ],
)
def test_settings_that_are_something_else_are_reported_with_what_they_should_be(
    name: str, arguments: tuple[str, ...], settings: Any
) -> None:
    with override_settings(DBQUEUE=settings):
        ended = run(name, *arguments)
    assert ended.code == 1
    assert ended.err.startswith("The settings are invalid:\n  ?: (dbqueue.E00")
    assert " must be " in ended.err


@every_command
def test_a_wrong_alias_is_reported_and_the_right_one_proposed(name: str) -> None:
    error = "There is no database 'defualt' in DATABASES. Did you mean 'default'?\n"
    ended = run(name, *COMMANDS[name], "--database", "defualt")
    assert (ended.code, ended.out, ended.err) == (2, "", error)
    with override_settings(DBQUEUE={"DATABASE": "defualt"}):
        ended = run(name, *COMMANDS[name])
        assert (ended.code, ended.out, ended.err) == (1, "", error)


# -- stopped on the way -----------------------------------------------------------------------------------


def many_dead(number: int) -> None:
    Message.objects.enqueue_many([Envelope(n) for n in range(number)], queue=QUEUE)
    Message.objects.update(available_at=None, finished_at=DbNow(), live=None)


def signalled(number: int, work: Callable[..., Any]) -> Callable[..., Any]:
    """Work that a signal comes in the middle of, as from somebody else's terminal."""

    def work_and_signal(*arguments: Any, **named: Any) -> Any:
        result = work(*arguments, **named)
        os.kill(os.getpid(), number)
        return result

    return work_and_signal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["queue_requeue", "queue_drop"])
def test_a_sweep_that_is_stopped_reports_what_is_done_and_the_rest_stands(
    name: str, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_dead(3 * bulk.STEP)
    monkeypatch.setattr(mover, "move_page", signalled(number, mover.move_page))
    ended = run(name, *COMMANDS[name])
    assert ended.code == 130
    assert ended.out.startswith(f"{bulk.STEP} messages ")
    assert "Stopped between two steps" in ended.err
    assert Message.objects.dead().count() == 2 * bulk.STEP
    monkeypatch.undo()
    assert run(name, *COMMANDS[name], "--json").document["moved"] == 2 * bulk.STEP  # who comes again goes on


def test_a_purge_that_is_stopped_reports_what_is_done_and_the_rest_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    done()
    dead()
    monkeypatch.setattr(DoneWalk, "archive", signalled(signal.SIGTERM, DoneWalk.archive))
    ended = run("queue_purge", QUEUE, "--older-than", "0", "--dead", "--yes", "--json")
    assert ended.code == 130
    assert (ended.document["moved"], ended.document["dead"], ended.document["interrupted"]) == (1, 0, True)
    assert Message.objects.dead().count() == 1


def test_a_count_that_is_stopped_counts_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    many_dead(3 * bulk.STEP)
    monkeypatch.setattr(bulk, "find", signalled(signal.SIGINT, bulk.find))
    ended = run("queue_requeue", "--queue", QUEUE, "--state", "dead", "--dry-run")
    assert (ended.code, ended.out) == (130, "")


def test_a_sweep_whose_table_goes_away_reports_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    many_dead(2 * bulk.STEP)
    step = mover.move_page

    def once(*arguments: Any, **named: Any) -> MoveOutcome:
        if Message.objects.ready().exists():
            with hidden("django_dbqueue_message"):
                return step(*arguments, **named)
        return step(*arguments, **named)

    monkeypatch.setattr(mover, "move_page", once)
    ended = run("queue_requeue", *COMMANDS["queue_requeue"])
    assert (ended.code, ended.out) == (1, f"{bulk.STEP} messages requeued.\n")
    assert "The database went away: " in ended.err
    assert Message.objects.ready().count() == bulk.STEP


@pytest.mark.once
def test_queues_without_the_option_are_refused_and_the_option_is_named() -> None:
    ended = run("run_queue_worker", "emails", "reports")
    assert ended.code == 2
    assert "--queues emails,reports" in ended.err
