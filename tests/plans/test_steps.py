"""Sleepers and steps: 100,000 of them cost neither a claim, nor an idle worker, nor one another anything (P21)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.databases import Claim, Statement, server_of
from django_dbqueue.databases.statement import Mark
from django_dbqueue.models import Event, Message, Step, Waiter
from django_dbqueue.statements import steps_sql
from django_dbqueue.steps import event_values_sql
from django_dbqueue.steps.emitting import hash_of_event
from django_dbqueue.worker import idle_poll_sql
from django_dbqueue.worker.idle_poll_sql import EXPIRED, READY
from tests.plans import crowd
from tests.plans.plan import CLAIM, NO_INDEX, PRIMARY, cost_of, plan_of, walk
from tests.plans.statements import claim_from

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
SLEEPERS = 100_000
WAITING = hash_of_event("many")
MOST = {"mysql": 100, "postgresql": 150, "sqlite": 4_000}
"""What ten rows may cost (as in test_statements)."""
BELIEFS = ["stale", "fresh"]


@pytest.fixture(scope="module", params=BELIEFS)
def sleepers(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[list[int]]:
    """100,000 messages that wait for events, each with a step that is done; ready ones among them."""
    tables = (Step, Waiter, Event)
    with django_db_blocker.unblock():
        crowd.empty()
        for model in tables:
            model.objects.all().delete()
        crowd.gather_statistics(Message, *tables)
        crowd.forget_statistics()
        crowd.fill(done=10, delayed=0, stuck=10, dead=2, backlog=0, queues=0)
        insert_sleepers()
        if request.param == "fresh":
            crowd.gather_statistics(Message, *tables)
        ids = list(Waiter.objects.order_by("message_id").values_list("message_id", flat=True)[:500])
    yield ids
    with django_db_blocker.unblock():
        crowd.empty()
        for model in tables:
            with connection.cursor() as cursor:
                cursor.execute(f"DELETE FROM {model._meta.db_table}")
        crowd.forget_statistics()
        connection.close()


def insert_sleepers() -> None:
    sql = server_of(connection)
    crowd.insert_messages(connection, SLEEPERS, f"'{crowd.QUEUE}'", "n", 0, "3600 + n * 0.01")
    parked = f"FROM {sql.message} WHERE available_at = '9999-12-31 00:00:00.000000'"
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {sql.message} SET available_at = '9999-12-31 00:00:00.000000', claim_token = id "
            f"WHERE queue = '{crowd.QUEUE}' AND status = 'n' AND available_at > {sql.plus(sql.now, '60')}",
            (),
        )
        for name, kind in (("done", "step"), ("many", "wait")):
            cursor.execute(
                f"INSERT INTO {sql.step} (message_id, name, kind, body, content_type, token, read_count, at) "
                f"SELECT id, '{name}', '{kind}', '1', 'json', id, 1, {sql.now} {parked}",
                (),
            )
        cursor.execute(f"INSERT INTO {sql.waiter} (name_hash, message_id, token) SELECT '{WAITING}', id, id {parked}")
        columns = "name_hash, name, body, content_type, token, at, wake_from, expires_at"
        for name, woken in (("told", "NULL"), ("many", sql.plus(sql.now, "60"))):
            unique = sql.joined.format(f"'{name}'", "id", "''")
            cursor.execute(
                f"INSERT INTO {sql.event_value} ({columns}) SELECT {unique}, '{name}', '1', 'json', 1, {sql.now}, "
                f"{woken}, {sql.plus(sql.now, '60')} {parked}",
                (),
            )
        cursor.execute(f"SELECT COUNT(*) {parked}")
        assert cursor.fetchone()[0] == SLEEPERS


def no_table_is_read_whole(statement: Statement) -> None:
    """By the plan, whatever the table: on PostgreSQL costs are known of messages alone."""
    plan = plan_of(connection, statement)
    if connection.vendor == "postgresql":
        assert "Seq Scan" not in plan.text, plan.text
    elif connection.vendor == "sqlite":
        assert "SCAN" not in plan.text.replace("SCAN json_each", ""), plan.text
    else:
        every = [line for line in plan.text.splitlines() if "'type': 'ALL'" in line]
        own = ("'table': 'given'", "'table': '<derived")  # the statement's own lists
        assert not [line for line in every if not any(each in line for each in own)], plan.text


@pytest.mark.usefixtures("sleepers")
@pytest.mark.parametrize("limit", [10, 200])
def test_100_000_sleepers_cost_a_claim_and_an_idle_worker_nothing(limit: int) -> None:
    server = server_of(connection)
    mark: Mark | None = None
    statement = claim_from(server, crowd.QUEUE, limit, mark)
    plan = plan_of(connection, statement)
    assert CLAIM in plan.indexes, plan.text
    assert set(plan.indexes) <= {CLAIM, PRIMARY}, plan.text
    assert cost_of(connection, statement) <= MOST[connection.vendor]
    for fact in (READY, EXPIRED):
        facts = idle_poll_sql.together(list(idle_poll_sql.due(server, fact, crowd.QUEUE, [9, 0])))
        assert NO_INDEX not in plan_of(connection, facts).indexes
        assert cost_of(connection, facts) <= MOST[connection.vendor]


STATEMENTS: dict[str, Callable[[Any, list[int]], Statement]] = {
    "read the steps of a message": lambda d, ids: steps_sql.of_message(d, ids[7]),
    "read their names": lambda d, ids: steps_sql.names(d, ids[7]),
    "is there a step": lambda d, _: steps_sql.any_step(d),
    "walk behind an id": lambda d, ids: steps_sql.behind(d, ids[7], 10),
    "park a message": lambda d, ids: steps_sql.park(d, Claim(ids[7], ids[7]), "many"),
    "forget a step": lambda d, ids: steps_sql.forget_one(d, ids[7], "done"),
    "read a cursor": lambda d, ids: steps_sql.cursor(d, ids[7], "done"),
    "resolve a wait": lambda d, ids: event_values_sql.wait_no_more(d, ids[7], WAITING),
    "forget the steps of messages": lambda d, ids: steps_sql.forget(d, ids[:5])[0],
    "forget what they wait for": lambda d, ids: steps_sql.forget(d, ids[:5])[1],
    "who waits for an event": lambda d, ids: event_values_sql.waiting(d, WAITING, ids[7], 10),
    "wake them": lambda d, ids: event_values_sql.wake(d, event_values_sql.still_waiting(d, WAITING, ids[:5])),
    "who was left behind": lambda d, _: event_values_sql.left_behind(d, 0.0, 10),
    "events that have expired": lambda d, _: event_values_sql.expired(d, 10),
    "forget some events": lambda d, _: event_values_sql.delete(d, [hash_of_event(f"e{n}") for n in range(5)]),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_about_steps_reads_what_it_needs(sleepers: list[int], name: str) -> None:
    statement = STATEMENTS[name](server_of(connection), sleepers)
    assert cost_of(connection, statement) <= MOST[connection.vendor]
    if name != "is there a step":
        no_table_is_read_whole(statement)


if settings.TEST_DATABASE == "postgres":

    @pytest.mark.usefixtures("sleepers")
    def test_the_first_step_of_any_message_is_read_and_no_other() -> None:
        with connection.cursor() as cursor:
            statement = steps_sql.any_step(server_of(connection))
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}", statement.params)
            plan = cursor.fetchone()[0][0]["Plan"]
        assert max(node["Actual Rows"] for node in walk(plan)) == 1
