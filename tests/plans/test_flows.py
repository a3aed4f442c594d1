"""Flows: what an end, a look, the keeper and a page read does not grow with the flow, nor with other flows (P22)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from django_dbqueue.databases import Statement, server_of
from django_dbqueue.flows import flow_parts_sql
from django_dbqueue.flows.flow_progress import SHOWN, _sample
from django_dbqueue.lifecycle import flows_sql, results_sql
from django_dbqueue.models import Edge, Flow, FlowPart, Message
from tests.plans import crowd
from tests.plans.plan import cost_of, plan_of

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
MEMBERS = 100_000
FAN = 20_000
"""Those that one waits for, and those that wait for one."""
OTHERS = 5_000
"""Other flows, of one part each."""
PARTS = 20
MOST = {"mysql": 100, "postgresql": 150, "sqlite": 4_000}
"""What ten rows may cost (as in test_statements)."""
BELIEFS = ["stale", "fresh"]


@dataclass(frozen=True, slots=True)
class Many:
    """A flow, the lowest and highest of its ids, one that waits for ``FAN``, and one that ``FAN`` wait for."""

    flow: int
    first: int
    last: int

    @property
    def ids(self) -> list[int]:
        return list(range(self.first + 7, self.first + 17))

    @property
    def waits(self) -> int:
        return self.last

    @property
    def waited_for(self) -> int:
        return self.last - 1

    @property
    def waiting(self) -> list[int]:
        return list(range(self.last - 20, self.last - 10))

    @property
    def free(self) -> tuple[int, int]:
        """Ids that nobody waits for, and that wait for nobody."""
        return self.first + FAN + 10, self.first + FAN + 19

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return [(self.ids[0], self.ids[-1])]


@pytest.fixture(scope="module", params=BELIEFS)
def many(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Many]:
    """A flow of 100,000 messages among others."""
    tables = (Edge, FlowPart, Flow)
    with django_db_blocker.unblock():
        crowd.empty()
        clear(*tables)
        crowd.gather_statistics(Message, *tables)
        crowd.forget_statistics()
        found = insert_flow()
        if request.param == "fresh":
            crowd.gather_statistics(Message, *tables)
    yield found
    with django_db_blocker.unblock():
        crowd.empty()
        clear(*tables)
        crowd.forget_statistics()
        connection.close()


def clear(*models: Any) -> None:
    for model in models:
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {model._meta.db_table}")


def insert_flow() -> Many:
    sql = server_of(connection)
    Flow.objects.bulk_create([Flow(name=f"other {n}") for n in range(OTHERS)], batch_size=1_000)
    flow = Flow.objects.create(name="many").pk
    others = Flow.objects.exclude(pk=flow).values_list("pk", flat=True)
    parts = [FlowPart(flow=other, first_id=10**9 + other, last_id=10**9 + other, messages=1) for other in others]
    FlowPart.objects.bulk_create(parts, batch_size=1_000)
    crowd.insert_messages(connection, MEMBERS, f"'{crowd.QUEUE}'", "n", 0, "-60")
    first, last = (Message.objects.order_by(order).values_list("pk", flat=True)[0] for order in ("pk", "-pk"))
    Message.objects.update(flow=flow)
    each = (last - first + 1) // PARTS
    for n in range(PARTS):
        low = first + n * each
        high = last if n == PARTS - 1 else low + each - 1
        FlowPart.objects.create(flow=flow, first_id=low, last_id=high, messages=high - low + 1)
    found = Many(flow, first, last)
    assert last - first + 1 >= MEMBERS
    insert = f"INSERT INTO {sql.edge} (downstream, upstream, needs) SELECT"
    those = f"FROM {sql.message} WHERE id BETWEEN {last - FAN - 10} AND {last - 10}"
    with connection.cursor() as cursor:
        edges = (
            f"{insert} {found.waits}, id, 'done' FROM {sql.message} WHERE id < {first + FAN}",
            f"{insert} {found.waits}, 0, 'done'",
            f"{insert} id, {found.waited_for}, 'done' {those}",
            f"{insert} id, 0, 'done' {those}",
        )
        for statement in edges:
            cursor.execute(statement, ())
    return found


STATEMENTS: dict[str, Callable[[Any, Many], Statement]] = {
    "who waits for those that end": lambda d, m: flows_sql.waiters_for(d, m.ids),
    "who waits for what": lambda d, m: flows_sql.needs_of_waiters_for(d, m.ids),
    "forget the edges of those that end": lambda d, m: flows_sql.forget_edges_from(d, m.ids[:5]),
    "look at one that waits for many": lambda d, m: flows_sql.open_gates(d, [m.waits]),
    "look at many that wait for one": lambda d, m: flows_sql.open_gates(d, m.waiting),
    "look at those that wait for nobody": lambda d, m: flows_sql.open_gates(d, m.ids),
    "lock gates": lambda d, m: flows_sql.lock_gates(d, [m.waits, *m.waiting[:5]]),
    "forget gates": lambda d, m: flows_sql.forget_gates(d, [m.waits, *m.waiting[:4]]),
    "lock those that may run": lambda d, m: flows_sql.queues_of(d, flows_sql.waiting(d, m.waiting)),
    "let one run at a death": lambda d, m: flows_sql.fire(d, m.waits)[0],
    "the keeper's walk along edges": lambda d, m: flows_sql.edges_behind(d, m.ids[0], 0, 10),
    "the keeper's walk inside those of one": lambda d, m: flows_sql.edges_behind(d, m.waited_for, m.waiting[0], 10),
    "the keeper's walk along gates": lambda d, m: flows_sql.gates_behind(d, m.waiting[0], 10),
    "the keeper's old flows": lambda d, m: flow_parts_sql.old(d, m.flow - 100, 0.0, 10),
    "is a message of a flow left": lambda d, m: flow_parts_sql.any_of(d, m.flow, m.ranges),
    "write gates": lambda d, m: flows_sql.add_gates(d, m.flow, *m.free, "done"),
    "write edges": lambda d, m: flows_sql.add_edges(d, m.flow, (m.free[0], m.free[0]), (m.ids[0], m.ids[4]), "done"),
    "write edges of children": lambda d, m: flows_sql.add_children(d, m.ids[0], m.flow, m.free[0], m.free[0] + 4),
    "does it wait": lambda d, m: flows_sql.has_gate(d, m.waits),
    "for whom it waits": lambda d, m: flows_sql.waited_for(d, m.waits, 10),
    "how many messages a flow has": lambda d, m: flow_parts_sql.total(d, m.flow),
    "the parts of a flow": lambda d, m: flow_parts_sql.parts(d, m.flow, 10),
    "the parts of children": lambda d, m: flow_parts_sql.parts_of_children(d, m.flow),
    "progress of some": lambda d, m: flow_parts_sql.stages_of(d, m.flow, m.ranges),
    "some that are not done": lambda d, m: flow_parts_sql.unfinished(d, m.flow, m.ranges, 10),
    "some of several ranges": lambda d, m: flow_parts_sql.unfinished(
        d, m.flow, [*m.ranges, (m.waiting[0], m.waiting[-1])], 20
    ),
    "the last that are parked": lambda d, m: flow_parts_sql.last_parked(
        d, m.flow, [(m.first, m.first + 9), *m.ranges], 10
    ),
    "results of some": lambda d, m: results_sql.of_flow(d, m.flow, *m.ranges[0]),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_about_flows_reads_what_it_needs(many: Many, name: str) -> None:
    statement = STATEMENTS[name](server_of(connection), many)
    cost = cost_of(connection, statement, everywhere=True)
    assert cost <= MOST[connection.vendor], plan_of(connection, statement).text


def test_progress_of_a_large_flow_reads_a_sample_of_it(many: Many) -> None:
    sample = _sample([(many.first, many.last)])
    assert sum(last - first + 1 for first, last in sample) == SHOWN
    of_sample = cost_of(connection, flow_parts_sql.stages_of(server_of(connection), many.flow, sample))
    of_all = cost_of(connection, flow_parts_sql.stages_of(server_of(connection), many.flow, [(many.first, many.last)]))
    assert of_sample <= of_all / 4, plan_of(
        connection, flow_parts_sql.stages_of(server_of(connection), many.flow, sample)
    ).text
