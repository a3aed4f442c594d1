"""Consumers that work in steps; each thing they do is a line in the log file."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from django.db import transaction

from django_dbqueue import consumer
from tests.consumers_app.noting import note

if TYPE_CHECKING:
    from django_dbqueue.models import Message


@consumer("stepping", max_reads=3, backoff=0.05)
def wait_in_steps(message: Message) -> None:
    what = message.payload
    note("begin", message)
    message.step("first", lambda: note("first", message))
    for event in what.get("events", ()):
        message.wait_for(event)
    message.sleep("nap", what.get("nap", 0))
    if what.get("die"):
        try:
            message.sleep("last", 7_200)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    if what.get("swallow"):
        try:
            message.sleep("swallowed", 0.05)
        except BaseException:
            note("swallowed", message)
            return
    note("end", message)


@consumer("stepping-async", max_reads=3, backoff=0.05)
async def wait_in_async_steps(message: Message) -> None:
    async def first() -> None:
        note("first", message)

    note("begin", message)
    await message.astep("first", first)
    for event in message.payload.get("events", ()):
        await message.await_for(event)
    await message.asleep("nap", message.payload.get("nap", 0))
    note("end", message)


@consumer("resuming", max_reads=20, backoff=0.05, backoff_max=0.05)
def write_in_slices(message: Message) -> None:
    """Write a row in each slice; each delivery kills its process at the next of the points that the message names."""
    what = message.payload
    note("begin", message)

    def pass_by(point: str) -> None:
        if point == dict(enumerate(what["deaths"], start=1)).get(message.read_count):
            note("dies", message, point=point)
            os.kill(os.getpid(), signal.SIGKILL)

    with message.resumable_step("write") as step:
        if step.is_new:
            for number in range(step.cursor or 0, what["slices"]):
                pass_by(f"before {number}")
                with transaction.atomic():
                    type(message).objects.enqueue(number, queue="slices")
                    pass_by(f"written {number}")
                    step.save(number + 1)
                    pass_by(f"saved {number}")
                pass_by(f"committed {number}")
            step.result = step.cursor
    pass_by("done")
    note("end", message, result=step.result)
