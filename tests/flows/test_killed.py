"""Killed at any statement of a sender, an ack, a spawn or a death, a flow ends all the same, each once (P22)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from django_dbqueue.models import Edge, Flow, FlowPart, Line, Message, Ticket
from tests.factories import let_end
from tests.flows import killed_flow
from tests.flows.fans import keep
from tests.flows.killed_flow import QUEUE
from tests.systems.kills import End, killed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=[*killed_flow.VERBS])
def act(request: pytest.FixtureRequest, worker_env: dict[str, str]) -> Iterator[Callable[[int], End]]:
    with killed("tests.flows.killed_flow", request.param, worker_env) as ask:
        yield ask


def set_up(verb: str) -> None:
    for model in (Message, Edge, Flow, FlowPart, Line, Ticket):
        model.objects.all().delete()
    if verb == "send":
        return
    killed_flow.send()
    messages = Message.objects.claim(2, queue=QUEUE)
    assert [message.payload for message in messages] == ["child", "child"]
    if verb != "ack many":
        messages[1].ack()


def let_all_end() -> Counter[str]:
    """What workers do: rescue, keep, and work until nothing is left; return what ran, and what was done before."""
    let_end(*Message.objects.filter(status="run"))
    Message.objects.rescue()
    for _ in range(3):
        keep()
        while messages := Message.objects.claim(10, queue=QUEUE):
            assert Message.objects.ack(messages) == []
    return Counter(message.payload for message in Message.objects.filter(status="y", error=None))


def plain(point: str) -> str:
    return re.sub(r"(?<=, )\d+", "…", point)  # each round has a flow of its own


def test_killed_at_any_statement_a_flow_ends_with_each_of_its_messages_once(
    act: Callable[[int], End], request: pytest.FixtureRequest
) -> None:
    verb = request.node.callspec.params["act"]
    killed_at: list[str] = []
    seen: set[frozenset[tuple[str, int]]] = set()
    set_up(verb)
    assert not act(10_000)["killed"], "the first one writes what the others find"
    let_all_end()
    while True:
        set_up(verb)
        end = act(len(killed_at))
        assert not end["failed"]
        was_dead = Message.objects.dead().count()
        done = let_all_end()
        seen.add(frozenset(done.items()))
        if verb == "send" and not Message.objects.exists():
            assert not Flow.objects.exists(), end["points"]
            assert not Edge.objects.exists(), end["points"]
        elif was_dead:
            assert done == {"child": 1, "alert": 1}, (end["points"], done)
            assert Message.objects.waiting().count() == 2, "behind a dead one"
            assert Message.objects.dead().requeue() == 1
            assert let_all_end() == {"child": 2, "alert": 1, "middle": 1, "last": 1}, end["points"]
        else:
            children = 3 if verb == "spawn and ack" and done["child"] == 3 else 2
            assert done == {"child": children, "middle": 1, "last": 1}, (end["points"], done)
            assert Message.objects.filter(error__startswith="Not needed").count() == 1
        assert not Edge.objects.exists(), end["points"]
        assert not Message.objects.exclude(status="y").exists(), end["points"]
        if not end["killed"]:
            break
        killed_at.append(end["points"][-1])
    assert list(map(plain, killed_at)) == list(map(plain, end["points"])), "each boundary had its kill"
    assert any("COMMIT" in point for point in killed_at)
    assert len(seen) > 1 or verb in ("ack", "ack many"), seen
    assert sum("edge" in point for point in killed_at) >= 4, killed_at
