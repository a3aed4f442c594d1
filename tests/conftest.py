from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.consumers import registry as consumer_registry
from django_dbqueue.sessions import retry
from tests.left_out import PARTS, sentences
from tests.long_files import takes_long
from tests.permissions import keep_permissions
from tests.whole_server import WholeServer

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

pytest_plugins = ["tests.alarm"]
ROOT = Path(__file__).resolve().parent.parent
ASKING = {"db", "transactional_db", "database"}
"""Fixtures of those that ask a database."""
KNOWING = {"connection", "connections", "server_of", "settings"}
"""Names in a module that has a database at hand, or asks which one it is."""


def pytest_configure(config: pytest.Config) -> None:
    """The order is random (pytest-randomly); what tests draw is not to be the same in each of them: a run of the
    pipeline draws its name."""
    config.option.randomly_reset_seed = False


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what can't even be imported here."""
    return True if any(part.has(collection_path) and not part.is_here() for part in PARTS) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """What asks no database, in a module that has none at hand, is the same beside each, and so is asked `once`."""
    asks = ASKING & {*getattr(item, "fixturenames", ())} or item.get_closest_marker("django_db")
    if not asks and not KNOWING & vars(getattr(item, "module", None) or object).keys():
        item.add_marker("once")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, in the random order that they have: one that began last would run alone.

    What is of another server is left out also where its file is named: pytest then asks no ``collect_ignore``.
    """
    items[:] = [item for item in items if item.path.name not in _of_others(item.path.parent.name)]
    items.sort(key=lambda item: not takes_long(item.path))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, also to those who let pytest be quiet."""
    for sentence in sentences():
        terminalreporter.write_line(sentence, yellow=True)


@pytest.fixture(scope="session")
def database() -> str:
    """The database of this run: sqlite, mariadb, mysql or postgres."""
    return str(settings.TEST_DATABASE)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker, database: str) -> None:
    """Refuses a run that would test another server than it says, and makes flushes cheap."""
    vendor = {"postgresql": "postgres"}.get(connection.vendor, connection.vendor)
    if vendor == "mysql":
        with django_db_blocker.unblock():
            vendor = "mariadb" if connection.mysql_is_mariadb else "mysql"
    if vendor != database:
        pytest.exit(f"DBQUEUE_TEST_DATABASE says {database}, DBQUEUE_TEST_URL leads to {vendor}", returncode=4)
    with django_db_blocker.unblock():
        keep_permissions()


@pytest.fixture(scope="session", autouse=True)
def _consumers_of_the_project() -> None:
    """A module of consumers registers at its first import only: in a test that has a registry of its own, it would
    register there, and be missing ever after."""
    consumer_registry.autodiscover()


@pytest.fixture(autouse=True)
def _registry_as_it_was(_consumers_of_the_project: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone with it."""
    monkeypatch.setattr(consumer_registry, "_registry", consumer_registry.functions())
    if (options := sys.modules.get("django_dbqueue.tasks.options")) is not None:
        monkeypatch.setattr(options, "scheduled_paths", dict(options.scheduled_paths))


@pytest.fixture(autouse=True)
def _no_error_was_judged() -> None:
    """What a server has refused in another test says nothing of this one."""
    retry._judged.clear()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A registry without the project's consumers; what a test registers stands there alone."""
    empty: dict[str, Any] = {}
    monkeypatch.setattr(consumer_registry, "_registry", empty)
    return empty


@pytest.fixture
def whole_server() -> Iterator[WholeServer]:
    """The server, whose own settings nobody changes meanwhile."""
    with WholeServer.shared() as server:
        yield server


@pytest.fixture
def worker_env(transactional_db: None) -> dict[str, str]:
    """The environment in which `python -m django run_queue_worker` works on this very test database."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DBQUEUE_TEST_NAME": str(connection.settings_dict["NAME"]),
        "PYTHONPATH": path,
        "PYTHONUNBUFFERED": "1",
    }


@pytest.fixture
def other_connection(transactional_db: None) -> Iterator[BaseDatabaseWrapper]:
    """A second connection to the test database, independent of Django's own; any thread may use it."""
    other = connections["default"].copy()
    other.inc_thread_sharing()
    yield other
    other.close()


@pytest.fixture
def session(transactional_db: None) -> Iterator[BaseDatabaseWrapper]:
    """Django's connection, in a session that a test may spoil."""
    connection.close()
    connection.ensure_connection()
    yield connection
    connection.close()


def _of_others(folder: str) -> list[str]:
    ignored: list[str] = getattr(sys.modules.get(f"tests.{folder}.conftest"), "collect_ignore", [])
    return ignored
