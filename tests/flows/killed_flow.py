"""What moves a flow, and is killed: ``python -m tests.flows.killed_flow send|ack|ack many|spawn|reject|…``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.systems.kills import Boundaries, serve

QUEUE = "flows"


def send() -> None:
    from django_dbqueue import Envelope, flow

    with flow("killed") as f:
        parts = f.enqueue_many(["child", "child"], queue=QUEUE)
        middle = f.enqueue(Envelope("middle", group="g"), queue=QUEUE, after=parts)
        f.enqueue("alert", queue=QUEUE, after=parts, when="dead")
        f.enqueue("last", queue=QUEUE, after=middle, when="finished")


def held() -> list[Any]:
    """What the test has claimed, as its holder has it in hand."""
    from django_dbqueue.models import Message

    messages = list(Message.objects.filter(status="run").order_by("id"))
    for message in messages:
        message.held_token = message.claim_token
    return messages


def ack_in_a_transaction(message: Any) -> None:
    with message.transaction():
        message.spawn("child", queue=QUEUE)


def ack_many() -> None:
    from django_dbqueue.models import Message

    assert Message.objects.ack(held()) == []


VERBS: dict[str, Callable[[], object]] = {
    "send": send,
    "ack": lambda: held()[0].ack(),
    "ack many": ack_many,
    "spawn and ack": lambda: ack_in_a_transaction(held()[0]),
    "reject": lambda: held()[0].reject("no"),
}


def act(verb: str, boundaries: Boundaries) -> None:
    from django.db import connection

    held()  # before it is watched: a move begins with its own statements
    boundaries.watch(connection)
    VERBS[verb]()


if __name__ == "__main__":
    serve(partial(act, sys.argv[1]))
