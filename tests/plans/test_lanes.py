"""What groups cost is one index entry for each lane, however many wait in it, and whatever the server believes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from django_dbqueue.databases import server_of
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import PARKED, Statement
from django_dbqueue.lanes import groups_sql, heads_sql, lanes_sql, rates_sql
from django_dbqueue.models import Group, Line, Message, Ticket
from tests.factories import QUEUE
from tests.flows.fans import keep
from tests.plans import crowd
from tests.plans.plan import cost_of

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker


pytestmark = pytest.mark.django_db
HOT, LANES, EACH = 20_000, 400, 50
"""Messages that wait in the first lane; the other lanes, and how many wait in each."""
ROWS = {"mysql": EACH, "postgresql": EACH, "sqlite": 20}
"""Messages of a lane that have a row: so many that a server that may read them all would, and rightly so with fewer."""
WIDE = 300
"""Tickets of one lane more, each of which is out; as many wait there."""
AT_ONCE = 100
MOST = {"mysql": 14, "postgresql": 22, "sqlite": 450}
"""What a lane may cost in one statement: entries and rows read, pages, steps of the machine."""


@pytest.fixture(scope="module", params=["stale", "fresh"])
def lanes(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[list[int]]:
    """The numbers of lanes, the hot one first; message n of a lane has the id lane * 100_000 + n."""
    numbers = [(lane + 1) * 1_000_000 for lane in range(LANES + 1)]
    with django_db_blocker.unblock():
        _empty()
        crowd.gather_statistics(Message, Line, Ticket, Group)
        crowd.forget_statistics()
        _fill(numbers)
        _fill_wide(wide_of(numbers))
        if request.param == "fresh":
            crowd.gather_statistics(Message, Line, Ticket, Group)
    yield numbers
    with django_db_blocker.unblock():
        _empty()
        connection.close()


def _empty() -> None:
    for model in (Line, Ticket, Group):
        model.objects.all().delete()
    crowd.empty()


def _fill(numbers: list[int]) -> None:
    for lane in numbers:
        count = HOT if lane == numbers[0] else EACH
        Line.objects.bulk_create([Line(lane=lane, message_id=lane + n) for n in range(1, count)], batch_size=5_000)
        few = range(ROWS[connection.vendor])
        Message.objects.bulk_create(
            [Message(id=lane + n, queue=QUEUE, body="1", lane=lane, group_name=str(lane), status="n") for n in few]
        )
    Ticket.objects.bulk_create([Ticket(lane=lane, ticket=0, message_id=lane) for lane in numbers])
    Message.objects.exclude(id__in=numbers).update(available_at=PARKED + "+00:00")
    Group.objects.bulk_create([Group(lane=lane, queue=QUEUE, name=str(lane), width=2) for lane in own_groups(numbers)])


def wide_of(lanes: list[int]) -> int:
    """The lane with many tickets."""
    return lanes[-1] + 1_000_000


def _fill_wide(lane: int) -> None:
    places = range(2 * WIDE)
    Message.objects.bulk_create(
        [Message(id=lane + n, queue=QUEUE, body="1", lane=lane, group_name="wide", status="n") for n in places]
    )
    Message.objects.filter(id__gte=lane + WIDE).update(available_at=PARKED + "+00:00")
    Line.objects.bulk_create([Line(lane=lane, message_id=lane + n) for n in places[WIDE:]])
    Ticket.objects.bulk_create([Ticket(lane=lane, ticket=n, message_id=lane + n) for n in places[:WIDE]])


def own_groups(lanes: list[int]) -> list[int]:
    """Those that have a row of their own."""
    return lanes[::7]


def statements(lanes: list[int]) -> dict[str, Statement]:
    server = server_of(connection)
    some = lanes[:AT_ONCE]
    heads = [(lane, lane) for lane in some]
    first = [(lane, lane + 1) for lane in some]
    return {
        "who is next": heads_sql.heads(server, heads),
        "who is next for several": heads_sql.first_places(server, [(lane, 1) for lane in some]),
        "which tickets are out": lanes_sql.occupancy(server, some),
        "take a ticket": lanes_sql.draw(server, [(lane, 1) for lane in some], -7),
        "leave the line": lanes_sql.leave(server, first),
        "enter the line": lanes_sql.enter(server, [(lane, lane + HOT) for lane in some]),
        "pass the ticket on": lanes_sql.pass_on(server, [(lane, 0, lane, lane + 1) for lane in some]),
        "free the ticket": lanes_sql.free(server, [(lane, 0, lane) for lane in some]),
        "free the tickets of messages": lanes_sql.free_of(server, heads),
        "let it run": lanes_sql.let_run(server, [number for _, number in first]),
        "next lane": lanes_sql.next_lane(server, lanes[0]),
        "walk the tickets": lanes_sql.tickets_behind(server, -1, 0, AT_ONCE),
        "who may go along": lanes_sql.behind(server, [lane for lane in some if lane not in own_groups(lanes)], 1, 1),
        "go along": lanes_sql.follow(server, first),
        "walk those that went along": lanes_sql.followers_behind(server, ~lanes[-1], 0, AT_ONCE),
        "make groups for their rates": rates_sql.make_groups(server, [number for _, number in first]),
        "schedule their starts": rates_sql.step(server, [(lane, 1_000, 1_000) for lane in some]),
        "ask for their starts": rates_sql.gate(server, some),
        "reserve their starts": rates_sql.start(server, [(lane, 1) for lane in some]),
        "who has the tickets": heads_sql.tickets_of(server, some),
        "hurry some": rates_sql.hurry(server, lanes[0], [number for _, number in heads]),
        "who of some is ready": lanes_sql.ready(server, lanes[0], [number for _, number in heads]),
        "who of some is dead": lanes_sql.lock_dead(server, [number for _, number in heads]),
        "who is first": groups_sql.firsts(server, some),
        "who has a ticket": groups_sql.with_ticket(server, heads),
        "who stands in line": groups_sql.in_line(server, first),
        "how many are before one": groups_sql.count_before(server, lanes[0], lanes[0] + HOT, AT_ONCE),
        "who is gone from a line": groups_sql.gone_from_line(server, (lanes[0], lanes[0] + HOT // 2), AT_ONCE),
    }


@pytest.mark.parametrize("what", list(statements([1])))
def test_a_lane_costs_the_same_however_many_wait_in_it(lanes: list[int], what: str) -> None:
    cost = cost_of(connection, statements(lanes)[what], everywhere=True)
    assert cost <= AT_ONCE * MOST[connection.vendor]


WIDE_STATEMENTS: dict[str, Callable[[Server, int], Statement]] = {
    "which tickets are out": lambda server, lane: lanes_sql.occupancy(server, [lane]),
    "who has its tickets": lambda server, lane: heads_sql.tickets_of(server, [lane]),
    "who is next": lambda server, lane: heads_sql.first_places(server, [(~lane, WIDE), (lane, WIDE)]),
    "free its tickets": lambda server, lane: lanes_sql.free(server, [(lane, n, lane + n) for n in range(WIDE)]),
    "pass its tickets on": lambda server, lane: lanes_sql.pass_on(
        server, [(lane, n, lane + n, lane + WIDE + n) for n in range(WIDE)]
    ),
    "leave its line": lambda server, lane: lanes_sql.leave(server, [(lane, lane + WIDE + n) for n in range(WIDE)]),
    "take its tickets": lambda server, lane: lanes_sql.draw(server, [(lane, WIDE + n) for n in range(WIDE)], -7),
}


@pytest.mark.parametrize("what", WIDE_STATEMENTS)
def test_many_tickets_of_a_lane_cost_no_more_each_than_one(lanes: list[int], what: str) -> None:
    statement = WIDE_STATEMENTS[what](server_of(connection), wide_of(lanes))
    assert cost_of(connection, statement, everywhere=True) <= WIDE * MOST[connection.vendor]


def test_a_keeper_kicks_a_lane_among_many(lanes: list[int]) -> None:
    left = lanes[-1]
    Ticket.objects.filter(lane=left).delete()
    keep()
    assert Ticket.objects.filter(lane=left, message_id=left + 1).exists()
