"""Who waits for a message waits for its children too (P22)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from django_dbqueue import Envelope, InvalidFlow, LeaseLost, flow
from django_dbqueue.flows import flow_rows
from django_dbqueue.models import Edge, Flow, Message, Result
from django_dbqueue.models.fields import DbNow
from tests.factories import QUEUE, claim_one, let_end
from tests.flows.fans import fan, has_ended, run

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


@contextmanager
def ids_by_turns() -> Iterator[Callable[[int], None]]:
    """Let two statements get ids by turns, as a sequence may give them to rows that are inserted at once.

    What it gives is called with the first id of the one statement, before the other. Other servers never do that: there
    the ids of one statement follow each other.
    """
    if connection.vendor != "postgresql":
        yield lambda first: None  # noqa: ARG005
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_serial_sequence('django_dbqueue_message', 'id')")
        [sequence] = cursor.fetchone()
        cursor.execute(f"ALTER SEQUENCE {sequence} INCREMENT BY 2")
    with connection.cursor() as cursor:
        try:
            yield lambda first: cursor.execute("SELECT setval(%s, %s)", [sequence, first - 1])
        finally:
            cursor.execute(f"ALTER SEQUENCE {sequence} INCREMENT BY 1")


@pytest.mark.parametrize("group", [None, "g"])
def test_children_of_two_parents_whose_ids_interleave_are_not_mixed_up(group: str | None) -> None:
    with flow("two parents") as f:
        for name in "ab":
            parent = f.enqueue(name, queue=QUEUE)
            f.enqueue(f"after {name}", queue=QUEUE, after=parent)
    a, b = Message.objects.claim(2, queue=QUEUE)
    with ids_by_turns() as continue_between:
        first = a.spawn_many([Envelope(f"a{n}", group=group and f"a{n}") for n in range(3)], queue="children")
        continue_between(first.first)
        b.spawn_many([Envelope(f"b{n}", group=group and f"b{n}") for n in range(3)], queue="children")
    children = Message.objects.claim(9, queue="children")
    in_order = ["a0", "a1", "a2", "b0", "b1", "b2"]
    if connection.vendor == "postgresql":
        in_order.sort(key=lambda name: name[1])
    assert [each.payload for each in sorted(children, key=lambda each: each.pk)] == in_order
    waits = set(Edge.objects.filter(upstream__in=[each.pk for each in children]).values_list("downstream", "upstream"))
    after = {each.payload: each.pk for each in Message.objects.waiting(QUEUE)}
    assert waits == {(after[f"after {each.payload[0]}"], each.pk) for each in children}
    for child in children:
        Result.objects.create(
            pk=child.pk, flow=f.id, body=f'"{child.payload}"', content_type="json", expires_at=DbNow()
        )
        child.ack()
    a.ack()
    b.ack()
    for name in "ab":
        last = run(f"after {name}")
        assert last.results() == [f"{name}0", f"{name}1", f"{name}2"]
    assert has_ended(f.id)
