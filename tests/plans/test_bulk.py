"""A step of a bulk operation, and a look at groups of failures, read what they give and little more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from django_dbqueue.databases import server_of
from django_dbqueue.failures import failures_sql
from django_dbqueue.insight import failure_groups
from django_dbqueue.models import Failure, Message, MessageEvent
from django_dbqueue.models.fields import DbNow
from django_dbqueue.operations import bulk, bulk_sql
from django_dbqueue.operations.verbs import VERBS
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.table import Place
from django_dbqueue.worker import idle_poll_sql
from tests.plans import crowd
from tests.plans.plan import cost_of

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

pytestmark = pytest.mark.django_db
CROWD = {"done": 20_000, "delayed": 3_000, "stuck": 1_000, "dead": 4_000, "backlog": 20_000, "queues": 200}
PAGE = 10
MOST = {"mysql": 4 * PAGE, "postgresql": 8 * PAGE, "sqlite": 100 * PAGE}
"""Entries read; pages; steps of the machine. A scan of any range would cost many times as much."""
GROUPS, EACH = 40, 300


@pytest.fixture(scope="module")
def rows(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        crowd.empty()
        crowd.fill(**CROWD)
        crowd.gather_statistics()
    yield
    with django_db_blocker.unblock():
        crowd.empty()
        crowd.forget_statistics()
        connection.close()


@pytest.mark.parametrize("part", ["first", "behind", "later"])
@pytest.mark.parametrize(
    ("queue", "state", "priority"),
    [
        (crowd.QUEUE, "dead", 0),
        (crowd.QUEUE, "delayed", 9),
        (crowd.QUEUE, "stuck", 0),
        (crowd.QUEUE, "running", 9),
        (crowd.QUEUE, "done", 0),
        (crowd.BACKLOG, "ready", 0),
    ],
)
@pytest.mark.usefixtures("rows")
def test_a_page_costs_what_it_gives_wherever_it_begins(queue: str, state: str, priority: int, part: str) -> None:
    server, place = server_of(connection), Place(queue, state, priority)
    at = bulk.Selection.now(DjangoSession("default"), state=state).at
    found = Message.objects.in_queue(queue).filter(priority=priority)
    rows = getattr(found, state)() if state != "dead" else found.filter(available_at=None)
    [middle] = rows.order_by("available_at", "id").values_list("available_at", "id")[900:901]
    moment = "" if middle[0] is None else f"{middle[0]:%Y-%m-%d %H:%M:%S.%f}"
    if connection.vendor == "postgresql":
        moment += "+00"
    if part == "later":
        if state == "dead":
            return  # they have no moment
        statement = bulk_sql.page_later(server, place, at, moment, PAGE)
    else:
        statement = bulk_sql.page(server, place, at, None if part == "first" else (moment, middle[1]), PAGE)
    assert cost_of(connection, statement) <= MOST[connection.vendor]


@pytest.mark.usefixtures("rows")
def test_what_still_matches_is_locked_row_by_row() -> None:
    server = server_of(connection)
    ids = list(Message.objects.dead(crowd.QUEUE).values_list("pk", flat=True)[:PAGE])
    fence = bulk_sql.still(server, ids, "dead", bulk.Selection.now(DjangoSession("default"), state="dead").at)
    lock = bulk_sql.lock_seen(server, fence, VERBS["drop"].fence(server), skip_locked=True)
    assert cost_of(connection, lock) <= MOST[connection.vendor]


@pytest.mark.usefixtures("rows")
def test_looking_for_operations_costs_next_to_nothing() -> None:
    assert cost_of(connection, idle_poll_sql.at_work(server_of(connection), "dbqueue.operations")) <= 60


@pytest.fixture
def failures(rows: None) -> list[int]:
    """Forty groups of three hundred failures each, of messages that are dead."""
    Failure.objects.bulk_create(
        Failure(queue=f"q{n % 4}", fingerprint=f"{n:064}", exception="E", place="p", first_at=DbNow())
        for n in range(GROUPS)
    )
    ids = list(Failure.objects.order_by("pk").values_list("pk", flat=True))
    dead = list(Message.objects.dead(crowd.QUEUE).values_list("pk", flat=True)[:1_000])
    MessageEvent.objects.bulk_create(
        MessageEvent(
            message_id=dead[n % 1_000], queue="q", kind="died", at=DbNow(), failure_id=ids[n % GROUPS]
        )
        for n in range(GROUPS * EACH)
    )  # fmt: skip
    if connection.vendor == "postgresql":  # elsewhere it would commit, or last
        with connection.cursor() as cursor:
            for model in (MessageEvent, Failure):
                cursor.execute(f"ANALYZE {model._meta.db_table}")
    return ids


def test_a_list_of_groups_reads_a_bounded_part_of_each(failures: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_groups, "CAP", 100)
    server = server_of(connection)
    page = failures[:25]
    per_group = {"mysql": 3 * (failure_groups.CAP + 1), "postgresql": 0, "sqlite": 40 * (failure_groups.CAP + 1)}[
        connection.vendor
    ]
    newest = failures_sql.newest_of(server, page, failure_groups.CAP + 1)
    assert cost_of(connection, newest) <= per_group * len(page)
    last = failures_sql.by_last_event(server, None, 500)
    assert cost_of(connection, last) <= {"mysql": 8, "postgresql": 0, "sqlite": 60}[connection.vendor] * GROUPS
    found = failure_groups.groups(DjangoSession("default"), page)
    assert {int(group.count) for group in found.values()} == {failure_groups.CAP}


def test_a_step_of_a_group_reads_its_own_events_only(failures: list[int]) -> None:
    server = server_of(connection)
    last = MessageEvent.objects.latest("pk").pk
    behind = list(MessageEvent.objects.filter(failure_id=failures[7]).order_by("pk").values_list("pk", flat=True))
    statement = failures_sql.events_of(server, failures[7], behind[100], last, PAGE)
    assert cost_of(connection, statement) <= MOST[connection.vendor]
    most = {"mysql": 10, "postgresql": 10, "sqlite": 200}[connection.vendor] * PAGE
    assert cost_of(connection, failures_sql.dead_of_events(server, behind[:PAGE])) <= most


def test_forgetting_groups_reads_no_more_of_their_events_than_one(failures: list[int]) -> None:
    server = server_of(connection)
    most = {"mysql": 6, "postgresql": 0, "sqlite": 60}[connection.vendor] * GROUPS
    assert cost_of(connection, failures_sql.forgotten(server, 0, 86_400.0, 500)) <= most
    assert cost_of(connection, failures_sql.delete(server, failures)) <= most
