"""P23: a row is taken over exactly once: killed at any statement, by two importers at once, under load, run again."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection, connections

from django_dbqueue.importers import source_named, take_over
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.sessions.retry import is_passing
from tests.commands.running import run, start
from tests.importers.others import Other, imported
from tests.patience import patience
from tests.process.conftest import wait_until
from tests.systems.kills import End, killed

ROWS = 5
MANY = 1_200


@pytest.fixture
def import_until(other: Other, worker_env: dict[str, str]) -> Iterator[Callable[[int], End]]:
    with killed("tests.importers.killed_importer", other.name, worker_env) as ask:
        yield ask


def finish(other: Other) -> None:
    """Import until nothing waits: the server may not have noticed yet whose locks nobody needs any more."""
    wait_until(lambda: not (other.waiting() and run("queue_import", other.name, "--yes").code), "the rest")


def test_killed_at_any_statement_each_row_is_still_there_or_is_a_message(
    other: Other, import_until: Callable[[int], End]
) -> None:
    killed_at: list[str] = []
    moved: set[int] = set()
    while True:
        Message.objects.all().delete()
        other.clear()
        other.enqueue(range(ROWS + 1))
        running = str(other.claim())
        sent = other.waiting()
        assert len(sent) == ROWS
        end = import_until(len(killed_at))
        assert not end["failed"]
        assert sorted([*imported(other.name), *other.waiting()]) == sorted(sent), end["points"]
        moved.add(len(imported(other.name)))
        finish(other)
        assert (imported(other.name), other.waiting()) == (sorted(sent), set()), end["points"]
        assert str(other.table._base_manager.get().pk) == running
        if not end["killed"]:
            break
        killed_at.append(end["points"][-1])
    assert moved == {0, 3, ROWS}
    assert killed_at == end["points"], "each boundary had its kill"
    for statement in ("INSERT INTO django_dbqueue_message", "DELETE", "COMMIT"):
        for when in ("before", "after"):
            assert any(f"{when} {statement}" in point.replace("`", "").replace('"', "") for point in killed_at)


def test_two_importers_at_once_double_nothing(other: Other, worker_env: dict[str, str]) -> None:
    other.enqueue(range(MANY))
    sent = other.waiting()
    arguments = ("queue_import", other.name, "--yes", "--json")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    importers = [start(worker_env, *arguments, **pipes) for _ in range(2)]
    ended = [(process.communicate(timeout=patience(120)), process.returncode) for process in importers]
    moved = [json.loads(out)["taken"] for (out, _), code in ended if code in (0, 1)]
    assert sum(moved) == len(imported(other.name)), ended
    finish(other)
    assert imported(other.name) == sorted(sent)
    assert other.table._base_manager.count() == 0


def claimed_by_theirs(other: Other) -> Any:
    """Return what one claim of theirs gets; None for none, or a deadlock: they take it for an ordinary event, too."""
    try:
        return other.claim()
    except OperationalError as error:
        if not is_passing(error):
            raise
        return None


def then_close(what: Callable[[], None]) -> Callable[[], None]:
    """Return what does this, and closes its thread's connections."""

    def run_it() -> None:
        try:
            what()
        finally:
            connections.close_all()

    return run_it


def test_alongside_its_producers_and_its_workers_each_row_is_a_message_or_theirs(other: Other) -> None:
    claimed: list[str] = []
    started = threading.Barrier(3)

    def produce() -> None:
        started.wait()
        for number in range(60):
            other.enqueue([number])

    def work() -> None:
        started.wait()
        claimed.extend(str(key) for _ in range(40) if (key := claimed_by_theirs(other)) is not None)

    other.enqueue(range(20))
    threads = [threading.Thread(target=then_close(what)) for what in (produce, work)]
    for thread in threads:
        thread.start()
    started.wait()
    while any(thread.is_alive() for thread in threads):
        for _step in take_over.take_over(session_of(connection.alias), source_named(other.name)):
            pass
    for thread in threads:
        thread.join()
    finish(other)
    left = {str(key) for key in other.table._base_manager.values_list("pk", flat=True)}
    assert left == set(claimed)
    moved = imported(other.name)
    assert len(moved) == len(set(moved))
    assert len(moved) + len(claimed) == 80
    assert not left & set(moved)


def test_twice_is_once(other: Other) -> None:
    other.enqueue(range(ROWS))
    sent = other.waiting()
    assert run("queue_import", other.name, "--yes").code == 0
    again = run("queue_import", other.name, "--yes")
    assert (again.code, again.out) == (3, "")
    assert f"Nothing waits in {other.name}" in again.err
    assert imported(other.name) == sorted(sent)


def test_a_limit_takes_the_first_and_the_next_run_continues(other: Other) -> None:
    other.enqueue(range(ROWS))
    assert run("queue_import", other.name, "--yes", "--limit", "2").code == 0
    first = [other.number(message.payload) for message in Message.objects.order_by("id")]
    assert (first, len(other.waiting())) == ([0, 1], ROWS - 2)
    assert run("queue_import", other.name, "--yes").code == 0
    order = [other.number(message.payload) for message in Message.objects.order_by("id")]
    assert order == list(range(ROWS)), "in the order in which they were enqueued"


def test_a_dry_run_changes_nothing(other: Other) -> None:
    other.enqueue(range(ROWS))
    sent = other.waiting()
    ended = run("queue_import", other.name, "--dry-run", "--json")
    assert (ended.code, ended.document["taken"], ended.document["waiting"]) == (0, ROWS, ROWS)
    assert len(ended.document["examples"]) == ROWS
    assert (other.waiting(), Message.objects.count()) == (sent, 0)
