"""The keeper's walk gets around all lanes, however deep and however many; what it reads is bounded."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from django.db import connection

from django_dbqueue.databases.statement import Statement
from django_dbqueue.lanes import lane_keeper
from django_dbqueue.lanes.walk import next_lanes
from django_dbqueue.models import Line, Message, Ticket
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.keepers import Keepers
from tests.factories import QUEUE
from tests.scale.counters import examined

pytestmark = pytest.mark.django_db
DEEP = 3_000
FIRST = 1 << 62
"""Above the lanes of other tests, whose dead entries PostgreSQL would read too."""


def stand(lane: int, ids: Iterable[int]) -> None:
    Line.objects.bulk_create([Line(lane=lane, message_id=number) for number in ids])


def test_the_next_lanes_are_all_of_them_in_order_and_a_deep_one_is_skipped() -> None:
    stand(FIRST, range(DEEP))
    for lane in range(10, 700):
        stand(FIRST + lane, (DEEP + lane,))
    session, table = session_of("default"), session_of("default").server.line
    if connection.vendor == "postgresql":
        session.run(Statement(f"ANALYZE {table}", ()))  # it may take the table for a tiny one, and read it whole once
    with examined(connection) as found:
        lanes = next_lanes(session, table, after=FIRST - 1, limit=600)
    assert lanes == [FIRST, *range(FIRST + 10, FIRST + 609)]
    most = 2_000 if connection.vendor != "sqlite" else 2_000 * 30
    assert max(each.rows for each in found) < most
    assert next_lanes(session, table, after=FIRST, until=FIRST + 11, limit=9) == [FIRST + 10, FIRST + 11]
    assert next_lanes(session, table, after=FIRST + 699, until=FIRST + 2_000, limit=9) == []


def test_a_turn_goes_on_where_the_last_one_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_keeper, "STEP", 2)
    monkeypatch.setattr(lane_keeper, "AT_ONCE", 4)
    for number in range(20):
        Message.objects.enqueue(number, queue=QUEUE, group=str(number % 10))
    Ticket.objects.all().delete()
    keeper = Keepers(session_of("default"))
    turns = 0
    while keeper.turn():
        turns += 1
    assert turns == 2
    assert Ticket.objects.count() == 10
