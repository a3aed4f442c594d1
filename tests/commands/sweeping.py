"""Sweeps from a terminal, and messages for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_dbqueue.models import Group, Message
from tests.commands.running import Ended, run
from tests.factories import QUEUE, dead, done, held, let_pass, stuck, waiting

if TYPE_CHECKING:
    pass

WHY = ("--reason", "not wanted")


def requeue(*arguments: str) -> Ended:
    return run("queue_requeue", *arguments)


def drop(*arguments: str) -> Ended:
    return run("queue_drop", *arguments)


def cancel(*arguments: str) -> Ended:
    return run("queue_cancel", *arguments)


def due_now(*arguments: str) -> Ended:
    return run("queue_due_now", *arguments)


def move(*arguments: str) -> Ended:
    return run("queue_move", *arguments)


def state_of(message: Message) -> str:
    for state in ("ready", "delayed", "waiting", "running", "stuck", "dead", "done"):
        if getattr(Message.objects, state)().filter(pk=message.pk).exists():
            return state
    raise AssertionError(f"message {message.pk} is nowhere")


def one_of_each(queue: str = QUEUE) -> dict[str, Message]:
    made = {"stuck": stuck(queue=queue)}
    let_pass(made["stuck"], 1)
    made |= {"running": held(queue=queue), "dead": dead(queue=queue), "done": done(queue=queue)}
    made["waiting"] = waiting(queue=queue, group="g", delay=3600)
    Group.objects.pause(queue, "g")
    return made | {"delayed": waiting(queue=queue, delay=3600), "ready": waiting(queue=queue)}
