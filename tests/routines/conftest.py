from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import override_settings

from django_dbqueue.routines import installation
from django_dbqueue.sessions.django_session import DjangoSession
from tests.factories import QUEUE
from tests.routines.client import Client
from tests.routines.ways import ThroughPython, ThroughRoutines, Way

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

ON_SERVERS = [
    "test_conformance_claims.py",
    "test_conformance_settles.py",
    "test_cost.py",
    "test_events.py",
    "test_grants.py",
    "test_groups.py",
    "test_groups_in_a_row.py",
    "test_groups_in_transactions.py",
    "test_input.py",
    "test_install.py",
    "test_install_as_a_process.py",
    "test_many.py",
    "test_verbs.py",
]
# SQLite has no stored routines; what it says instead is tested in test_on_sqlite.py.
collect_ignore = ON_SERVERS if settings.TEST_DATABASE == "sqlite" else ["test_on_sqlite.py"]
if settings.TEST_DATABASE != "postgres":
    collect_ignore = [*collect_ignore, "test_install_beside_others.py", "test_takeover.py"]


@pytest.fixture(scope="module")
def installed(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The routines, in the test database, for the tests of one module."""
    with django_db_blocker.unblock():
        installation.install(DjangoSession("default"))
    yield
    with django_db_blocker.unblock():
        installation.uninstall(DjangoSession("default"))
        connection.close()


@pytest.fixture
def nothing_there(transactional_db: None) -> Iterator[None]:
    """No routine of ours, for tests that install them by themselves."""
    installation.uninstall(DjangoSession("default"))
    yield
    installation.uninstall(DjangoSession("default"))


@pytest.fixture
def start_client(installed: None, transactional_db: None) -> Iterator[Callable[..., Client]]:
    """Open sessions to the test database; all of them are closed with the test."""
    clients: list[Client] = []

    def start(who: tuple[str, str] | None = None) -> Client:
        clients.append(Client(connection.settings_dict, who))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def client(start_client: Callable[..., Client]) -> Client:
    return start_client()


@pytest.fixture(params=["python", "routines"])
def way(request: pytest.FixtureRequest, client: Client) -> Way:
    return ThroughPython() if request.param == "python" else ThroughRoutines(client)


def drained(client: Client, queue: str = QUEUE) -> list[str]:
    """The payloads in the order in which one consumer gets and acks them."""
    found = []
    while rows := client.claim(queue, 10, 60):
        for row in rows:
            found.append(row["payload"])
            assert client.ack(row["id"], row["token"])
    return found


@pytest.fixture
def configured(client: Client, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of routines that know these options of the queue."""
    with override_settings(DBQUEUE={"QUEUES": {QUEUE: request.param}}):
        call_command("queue_routines", "install", verbosity=0)
        yield client
    call_command("queue_routines", "install", verbosity=0)
