"""A process that is killed at a statement: ``python -m tests.flows.killed_flow send|ack|ack many|spawn|reject|…``.

It works as ``tests.systems.killed_archiver`` does: a number in, a child that is killed at that boundary, a line out.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

import django

from tests.systems.killed_archiver import Boundaries

if TYPE_CHECKING:
    from collections.abc import Callable

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


def act(verb: str, boundary: int, pipe: int) -> None:
    from django.db import connection

    held()  # before it is watched: a move begins with its own statements
    Boundaries(boundary, pipe).watch(connection)
    VERBS[verb]()


def run_child(verb: str, boundary: int) -> dict[str, Any]:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            act(verb, boundary, writer)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        points = lines.read().splitlines()
    status = os.waitpid(pid, 0)[1]
    return {"killed": os.WIFSIGNALED(status), "failed": bool(os.WEXITSTATUS(status)), "points": points}


if __name__ == "__main__":
    django.setup()
    for line in sys.stdin:
        print(json.dumps(run_child(sys.argv[1], int(line))), flush=True)
