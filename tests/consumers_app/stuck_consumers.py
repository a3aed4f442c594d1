"""Consumers that don't end when they should; who listens writes down what is reported of them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from django_dbqueue import consumer, signals
from tests.consumers_app.noting import note, until

if TYPE_CHECKING:
    from django_dbqueue.models import Message

QUEUES = ("stuck", "stuck-untimed", "stuck-async", "stuck-unheard")


@consumer("stuck", timeout=0.5, max_reads=1)
@consumer("stuck-unheard", timeout=0.5, max_reads=1)
@consumer("stuck-untimed", max_reads=1, interruptible=False)
def do_not_end(message: Message) -> None:
    note("begin", message)
    until(message, message.payload)


@consumer("stuck-async", timeout=0.5, max_reads=1)
async def do_not_end_either(message: Message) -> None:
    note("begin", message)
    while not Path(message.payload["file"]).exists():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


def note_stuck(*, queue: str, message_id: int, **report: Any) -> None:
    if queue in QUEUES:
        report = {name: report[name] for name in ("handler", "seconds", "after", "stack")}
        note("stuck", SimpleNamespace(pk=message_id, read_count=1), queue=queue, **report)  # type: ignore[arg-type]
    if queue == "stuck-unheard":
        threading.Event().wait()  # for what only the end of the child would free


signals.handler_stuck.connect(note_stuck)
