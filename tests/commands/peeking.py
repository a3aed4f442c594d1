"""Looking at messages with ``queue_peek``, and one message of each state to look at."""

from __future__ import annotations

import io
import json
from typing import Any

from django.core.management import call_command

from django_dbqueue.models import Group, Message
from tests.factories import QUEUE, dead, done, held, let_pass, stuck, waiting


def held_up(**options: Any) -> Message:
    message = waiting(group="g", **options)
    Group.objects.pause(message.queue, "g")
    return message


STATES: dict[str, Any] = {
    "ready": waiting,
    "delayed": lambda **options: waiting(delay=3600, **options),
    "waiting": held_up,
    "running": held,
    "stuck": stuck,
    "dead": dead,
    "done": done,
}


def peek(*arguments: str) -> tuple[int, str, str]:
    """Its exit code, what it printed, and what it complained of."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        call_command("queue_peek", *arguments, stdout=out, stderr=err)
    except SystemExit as end:
        code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def ids(*arguments: str) -> list[int]:
    return [json.loads(line)["id"] for line in peek(*arguments, "--json")[1].splitlines()]


def one_of_each(queue: str = QUEUE) -> dict[str, Message]:
    """The claimed ones first, since a claim takes what is due."""
    order = ("stuck", "running", "dead", "done", "delayed", "waiting", "ready")
    messages = {}
    for state in order:
        messages[state] = STATES[state](queue=queue, key=state)
        if state == "stuck":
            let_pass(messages[state], 1)
    return messages
