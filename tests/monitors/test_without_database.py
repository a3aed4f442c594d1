"""The pages for monitors while no database answers: 503, whoever sends the request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings

from tests.monitors.conftest import TOKEN

pytestmark = pytest.mark.django_db(transaction=True)
AWAY = {"sqlite": {"NAME": "/no/such/directory/queue.sqlite3"}}
AWAY_SERVER = {"HOST": "127.0.0.1", "PORT": "1"}


@contextmanager
def no_database(**options: object) -> Iterator[None]:
    """Let nothing listen where this process connects to."""
    connection.close()
    before = dict(connection.settings_dict)
    connection.settings_dict.update({**AWAY.get(connection.vendor, AWAY_SERVER), **options})
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(before)


def signed_in() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("somebody"))
    return client


@pytest.fixture(params=["with a session", "with a forged session", "with the token"])
def client(request: pytest.FixtureRequest) -> Client:
    if request.param == "with a session":
        return signed_in()
    if request.param == "with the token":
        return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {TOKEN}"})
    return Client(raise_request_exception=False, headers={"Cookie": "sessionid=abcdefghijklmnopqrstuvwxyz012345"})


@pytest.mark.parametrize("in_transactions", [False, True])
@override_settings(DBQUEUE={"MONITOR_TOKEN": TOKEN})
def test_each_page_is_503_without_a_database(client: Client, *, in_transactions: bool) -> None:
    with no_database(ATOMIC_REQUESTS=in_transactions):
        figures, health = client.get("/metrics"), client.get("/health")
    assert (figures.status_code, health.status_code) == (503, 503)
    assert figures.content == b"The database can't be read.\n"
    assert health.json() == {"ok": False, "problems": [{"queue": None, "problem": "database"}]}
    assert figures.headers["Cache-Control"] == health.headers["Cache-Control"] == "no-store"


def test_whoever_sends_neither_token_nor_session_is_refused_without_a_query() -> None:
    with no_database(ATOMIC_REQUESTS=True):
        assert [Client().get(path).status_code for path in ("/metrics", "/health")] == [401, 401]


def test_a_session_is_read_again_once_the_database_is_back() -> None:
    client = signed_in()
    with no_database():
        assert client.get("/health").status_code == 503
    assert client.get("/health").status_code == 200
