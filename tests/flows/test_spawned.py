"""Who waits for a message waits for its children too (P22)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError, connection

from django_dbqueue import Envelope, InvalidFlow, LeaseLost, flow
from django_dbqueue.flows import flow_rows
from django_dbqueue.models import Flow, Message
from tests.factories import QUEUE, claim_one, let_end
from tests.flows.fans import fan, has_ended, run

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.django_db(transaction=True)


def test_who_waits_for_a_message_waits_for_its_children_too() -> None:
    number = fan(1)
    parent = claim_one()
    parent.spawn("child", queue=QUEUE)
    parent.spawn_many([Envelope("a"), "b"], queue=QUEUE)
    parent.ack()
    child = claim_one()
    child.spawn("grandchild", queue=QUEUE)
    child.ack()
    run("a")
    run("b")
    run("grandchild")
    run("last")
    assert Flow.objects.get(pk=number).progress().total == 6
    assert has_ended(number)


def test_who_lost_the_claim_spawns_nothing() -> None:
    fan(1)
    parent = claim_one()
    let_end(parent)
    Message.objects.rescue()
    with pytest.raises(LeaseLost):
        parent.spawn("child", queue=QUEUE)
    assert Message.objects.count() == 2


def test_a_spawn_of_too_many_edges_is_refused_and_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_rows, "MOST_EDGES", 12)
    with flow("f") as f:
        first = f.enqueue("parent", queue=QUEUE)
        f.enqueue_many(range(4), queue=QUEUE, after=first)
    parent = claim_one()
    with pytest.raises(InvalidFlow, match=r"can't spawn 4 children.* more than the 12 edges"):
        parent.spawn_many(range(4), queue=QUEUE)
    assert Message.objects.count() == 5
    assert parent.spawn_many(range(3), queue=QUEUE).messages == 3


def test_children_from_an_iterator_survive_a_deadlock() -> None:
    """The spawn is run again, and must not find the iterator at its end: the flow would go on without them."""
    fan(1)
    parent, refused = claim_one(), []

    def refuse_once(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not refused and "INSERT" in sql and "flowpart" in sql:
            refused.append(sql)
            raise OperationalError("database is locked") from ServerError(1213, "40P01")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse_once):
        part = parent.spawn_many((f"child {number}" for number in range(3)), queue=QUEUE)
    assert (part.messages, len(refused)) == (3, 1)
    assert Message.objects.filter(flow=part.flow).count() == 5


class ServerError(Exception):
    """A deadlock, by MySQL's number and PostgreSQL's SQLSTATE."""

    def __init__(self, number: int, sqlstate: str) -> None:
        super().__init__(number)
        self.sqlstate = sqlstate
