"""Sweeps from a terminal, and messages for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_dbqueue.models import Message
from tests.commands.running import Ended, run
from tests.factories import QUEUE, dead, done, held, let_pass, stuck, waiting

if TYPE_CHECKING:
    pass

WHY = ("--reason", "not wanted")


def requeue(*arguments: str) -> Ended:
    return run("queue_requeue", *arguments)


def drop(*arguments: str) -> Ended:
    return run("queue_drop", *arguments)


def state_of(message: Message) -> str:
    for state in ("ready", "delayed", "running", "stuck", "dead", "done"):
        if getattr(Message.objects, state)().filter(pk=message.pk).exists():
            return state
    raise AssertionError(f"message {message.pk} is nowhere")


def one_of_each(queue: str = QUEUE) -> dict[str, Message]:
    made = {"stuck": stuck(queue=queue)}
    let_pass(made["stuck"], 1)
    made |= {"running": held(queue=queue), "dead": dead(queue=queue), "done": done(queue=queue)}
    return made | {"delayed": waiting(queue=queue, delay=3600), "ready": waiting(queue=queue)}
