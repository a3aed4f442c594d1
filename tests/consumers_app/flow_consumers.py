"""Consumers of a flow's parts, sync and async, and of what comes after all of them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from django_dbqueue import consumer
from tests.consumers_app.noting import note

if TYPE_CHECKING:
    from django_dbqueue.models import Message


@consumer("flow-parts", lease=2, max_reads=100, backoff=0.02, backoff_max=0.1)
def add(message: Message) -> int:
    number: int = message.payload["number"]
    if message.payload.get("die") and message.read_count == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@consumer("flow-parts-async", lease=2, max_reads=100, backoff=0.02, backoff_max=0.1)
async def add_async(message: Message) -> int:
    await asyncio.sleep(0)
    number: int = message.payload["number"]
    return number


@consumer("flow-sum", max_reads=100)
def total(message: Message) -> None:
    results: list[Any] = message.results()
    note("sum", message, total=sum(results), count=len(results), moment=time.time())
