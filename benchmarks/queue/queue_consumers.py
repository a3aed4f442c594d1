"""What the benchmarks' workers do with a message: next to nothing, or nothing for a while."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from django.contrib.auth.models import Group

from benchmarks.queue.probe import hit
from benchmarks.queue.statements import trace_if_set
from django_dbqueue import consumer

if TYPE_CHECKING:
    from django_dbqueue.models import Message

trace_if_set()


@consumer("bench")
def count(message: Message) -> None:
    hit(message.payload["n"])


@consumer("bench-slow")
def wait(message: Message) -> None:
    time.sleep(0.005)
    hit(message.payload["n"])


def write(messages: list[Message]) -> None:
    """Write two rows for each message; a group's name is unique."""
    numbers = [message.payload["n"] for message in messages]
    Group.objects.bulk_create(Group(name=f"{number}-{which}") for number in numbers for which in "ab")
    for number in numbers:
        hit(number)


@consumer("bench-rows", transactional=True)
def write_for_one(message: Message) -> None:
    write([message])


@consumer("bench-rows-of-many", batch=100, transactional=True)
def write_for_many(messages: list[Message]) -> None:
    write(messages)


@consumer("bench-async")
async def wait_in_a_coroutine(message: Message) -> None:
    await asyncio.sleep(0.2)
    hit(message.payload["n"])
