"""No statement of any page examines more than 20,000 rows, however many there are: read from the server's counters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpResponse
from django.test import Client

from django_dbqueue.admin.failure_pages import FOR_GROUPS
from django_dbqueue.models import BulkOperation, Message
from django_dbqueue.operations.bulk import COUNTED
from tests.admin.confirmations import form_of
from tests.admin.conftest import url
from tests.operations.orders import next_step
from tests.scale.counters import Examined, examined
from tests.scale.filled import MOST, SIZES, filled
from tests.scale.pages import paths
from tests.scale.size import Size, hot

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

pytestmark = pytest.mark.django_db
FORBIDDEN = re.compile("(?<!_schedule)_(add|delete)( |$)")
"""Ends of the names of pages that Django has and nobody may see: the rows are not written in the admin."""


@pytest.fixture(scope="module", params=SIZES)
def table(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Size]:
    with filled(request.param, django_db_blocker) as size:
        yield size
    with django_db_blocker.unblock():
        User.objects.all().delete()
        connection.close()


@pytest.fixture
def client(db: None, table: Size) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("op"))
    return client


def visit(client: Client, name: str, path: str) -> HttpResponse:
    """Look at a page; what wants a POST gets one that names nothing."""
    response = client.get(path)
    if response.status_code == 405:
        response = client.post(path)
    expected = {403} if FORBIDDEN.search(name) else {200, 302}
    assert response.status_code in expected, (name, path, response.status_code)
    return response  # type: ignore[return-value]


def over(name: str, found: list[Examined]) -> list[str]:
    """What was too much, in words; and on the way, what was the most."""
    most = max((each.rows for each in found), default=0)
    print(f"{name}: {len(found)} statements, {most} rows at most")
    return [f"{name}: {each.rows} rows by {each.sql[:600]}" for each in found if each.rows > MOST]


def test_no_statement_of_any_page_examines_more_rows_than_its_budget(client: Client) -> None:
    too_much = []
    for name, path in paths().items():
        with examined(connection) as found:
            visit(client, name, path)
        too_much += over(f"{name} ({path})", found)
    assert not too_much, "\n".join(too_much)


TICKED = 50
"""What a page of the list shows."""
ACTIONS = [
    (verb, state)
    for verb, states in {
        "requeue": ("stuck", "dead"),
        "release": ("running",),
        "reject": ("ready", "delayed", "waiting"),
        "send-again": ("dead",),
        "drop": ("ready", "dead"),
    }.items()
    for state in states
]


@pytest.mark.parametrize(("verb", "state"), ACTIONS)
def test_no_statement_of_an_action_examines_more_rows_than_its_budget(client: Client, verb: str, state: str) -> None:
    listed = f"{url('changelist')}?state={state}&queue={hot(state)}"
    ids = list(getattr(Message.objects, state)(hot(state)).values_list("pk", flat=True)[:TICKED])
    data = {"action": verb.replace("-", "_"), "index": 0, "_selected_action": ids}
    with examined(connection) as found:
        page = client.post(listed, data)
        done = client.post(url(f"{verb}_many"), form_of(page) | {"reason": "old"})
    too_much = over(f"{verb} of {state} ones", found)
    assert done.status_code == 302
    assert LogEntry.objects.filter(user__username="op").count() == len(ids) == TICKED
    with examined(connection) as found:
        page = client.post(listed, data | {"select_across": "1"})
        ordered = client.post(
            url(f"order_{verb}", model="bulkoperation"), {"ticket": page.context["ticket"], "reason": "old"}
        )
        assert ordered.status_code == 302
        assert client.get(ordered.headers["Location"]).status_code == 200
        assert next_step()
    too_much += over(f"{verb} of all {state} ones", found)
    assert BulkOperation.objects.latest("pk").steps == 1
    assert not too_much, "\n".join(too_much)


@pytest.mark.parametrize("state", ["ready", "delayed", "waiting", "running", "stuck", "dead", "done"])
def test_no_statement_of_an_order_for_all_queues_examines_more_rows_than_its_budget(
    client: Client, table: Size, state: str
) -> None:
    there = getattr(table, state)
    verb = {"ready": "reject", "delayed": "drop", "waiting": "drop", "done": "send-again"}.get(state, "requeue")
    data = {"action": verb.replace("-", "_"), "index": 0, "select_across": "1"}
    data["_selected_action"] = Message.objects.order_by("pk").values_list("pk", flat=True)[0]
    with examined(connection) as found:
        page = client.post(f"{url('changelist')}?state={state}", data)
    assert (f"{COUNTED:,}+" if there > COUNTED else f"{there:,} messages") in page.context["count"]
    too_much = over(f"{verb} of all {state} ones of all queues", found)
    assert not too_much, "\n".join(too_much)


@pytest.mark.parametrize("verb", FOR_GROUPS)
def test_no_statement_for_a_group_of_failures_examines_more_rows_than_its_budget(client: Client, verb: str) -> None:
    with examined(connection) as found:
        page = client.get(url(verb, 1, model="failure"))
        ordered = client.post(
            url(f"order_{verb}", model="bulkoperation"), {"ticket": page.context["ticket"], "reason": "old"}
        )
        assert ordered.status_code == 302
        assert next_step()
    too_much = over(f"{verb} of a group", found)
    assert BulkOperation.objects.latest("pk").steps == 1
    assert not too_much, "\n".join(too_much)
