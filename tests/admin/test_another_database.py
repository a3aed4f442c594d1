"""The queue's database is not the default one, and no router says so: every page and action finds the queue there."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, connections
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext

from django_dbqueue import flow
from django_dbqueue.models import BulkOperation, Message, Schedule
from django_dbqueue.operations.bulk import Selection
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.bulk_steps import take_step
from tests.admin.conftest import make_dead, make_delayed, make_done, make_ready, make_stuck
from tests.admin.crawl import crawl, places
from tests.admin.posting import Poster
from tests.admin.world import fill

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.once]

OTHER: Final = "another"
TEXTS: Final = {"reason": "by the test", "queue": "queue-2", "name": "new", "cron": "0 4 * * *"}
"""What is typed into a form where it says nothing."""
LOOKING: Final = ("_changelist", "_change", "_history", "_add", "_delete", "_figures")
LOGGED: Final = {
    *("Made due now", "Released", "Rejected", "Dropped", "Sent again", "Requeued", "Made it forget", "Moved"),
    *("Started: Requeue", "Stopped", "Paused", "Resumed", "Enabled", "Disabled", "Cancelled", "Payload downloaded"),
}
"""How entries of the admin's log begin after something was done."""
COMMANDS: Final = {
    "queue_pause": ("queue-2", "--reason", "a test"),
    "queue_peek": ("queue-2",),
    "queue_requeue": ("--queue", "queue-2", "--state", "dead", "--all", "--dry-run"),
    "queue_resume": ("queue-2",),
    "queue_status": (),
}


@pytest.fixture(scope="module", autouse=True)
def another(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An alias of the queue's own: of a copy of the test database on SQLite, where one file has one writer."""
    name = connections["default"].settings_dict["NAME"]
    if connection.vendor == "sqlite":
        name = str(_copied(name, tmp_path_factory.mktemp("another") / "queue.sqlite3"))
    connections.settings[OTHER] = connections.settings["default"] | {"NAME": name}
    yield OTHER
    connections[OTHER].close()
    del connections[OTHER]
    del connections.settings[OTHER]


def _copied(name: str, path: Path) -> Path:
    with closing(sqlite3.connect(name)) as here, closing(sqlite3.connect(path)) as there:
        here.backup(there)
    return path


def about_a_queue(queries: CaptureQueriesContext) -> list[str]:
    """Return the statements that name one of our tables."""
    tables = [model._meta.db_table for model in apps.get_app_config("django_dbqueue").get_models()]
    ours = re.compile(rf"[\"`]({'|'.join(tables)})[\"`]")
    return [query["sql"] for query in queries if ours.search(query["sql"])]


def things_done() -> set[str]:
    """Return the names of the addresses by which the admin changes something."""
    names = {place.name for place in places()}
    asking = {name for name in names if f"{name}_many" in names or "_failure_" in name}
    looking = {name for name in names if name.endswith(LOOKING)}
    return names - asking - looking | {f"django_dbqueue_schedule_{word}" for word in ("add", "change", "delete")}


@override_settings(DBQUEUE={"DATABASE": OTHER})
def test_every_page_and_every_action_of_the_admin_is_about_the_queues_own_database(browser: Client) -> None:
    fill(["harmless"])
    for make in (make_done, make_stuck, make_dead, make_ready, make_delayed):
        make("queue-2", key=make.__name__)
    with flow("a flow") as f:
        f.enqueue(1, queue="queue-2")
    Schedule.objects.add("tidy", queue="queue-2", cron="0 3 * * *")
    poster = Poster(browser, OTHER, TEXTS)
    with CaptureQueriesContext(connections["default"]) as here:
        visits = crawl(browser, each=12)
        assert {place.path for place in places()} <= {visit.path for visit in visits}
        for visit in visits:
            if visit.status == 200 and "html" in visit.type:
                poster.visit(visit.path)
    assert about_a_queue(here) == [], "\n".join(about_a_queue(here))
    assert things_done() - poster.names == set()
    logged = LogEntry.objects.values_list("change_message", flat=True)
    assert {word for word in LOGGED if not any(text.startswith(word) for text in logged)} == set()


@override_settings(DBQUEUE={"DATABASE": OTHER, "MONITOR_TOKEN": "s3cret"})
def test_monitors_commands_and_consumers_ask_the_queues_own_database(operator: User) -> None:
    for make in (make_done, make_stuck, make_dead, make_ready):
        make("queue-2")
    selection = Selection.now(session_of(OTHER), state="dead", queue="queue-2")
    operation = BulkOperation.objects.order("requeue", selection, expected=1, reason="", user=operator, ticket="t")
    assert operation is not None
    with CaptureQueriesContext(connections["default"]) as here, CaptureQueriesContext(connections[OTHER]) as there:
        for path, status in (("/metrics", 200), ("/health", 503)):
            answer = Client().get(path, HTTP_AUTHORIZATION="Bearer s3cret")
            assert answer.status_code == status, path
            assert b"queue-2" in answer.content
        for name, arguments in COMMANDS.items():
            call_command(name, *arguments)
        while steps := Message.objects.claim(1, queue="dbqueue.operations"):
            take_step(steps[0])
    assert about_a_queue(here) == []
    assert len(about_a_queue(there)) > len(COMMANDS)
    operation.refresh_from_db()
    assert (operation.state, operation.moved) == ("done", 1)
    assert LogEntry.objects.filter(change_message="Ended (done): 1 moved, 0 left alone.").exists()
