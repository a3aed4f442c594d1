"""Consumers of groups that note when each message begins and ends, by a clock that all processes share."""

from __future__ import annotations

import random
import time
from typing import Any

from django_dbqueue import Reject, Retry, consumer
from django_dbqueue.models import Message
from tests.consumers_app.noting import note


def _place(message: Message) -> dict[str, Any]:
    return {"lane": message.lane, "group": message.group, "at": time.monotonic_ns(), **message.payload}


def _run(message: Message) -> None:
    note("begin", message, **_place(message))
    time.sleep(random.uniform(0, 0.01))
    note("end", message, **_place(message))
    what = message.payload.get("do")
    if what == "retry" and message.read_count == 1:
        raise Retry(after=random.choice([0, 0.05]))
    if what == "reject":
        raise Reject("as it was told")


@consumer("groups", lease=2, max_reads=100, backoff=0.02, backoff_max=0.1)
def run_one(message: Message) -> None:
    _run(message)


@consumer("groups-in-a-transaction", transactional=True, lease=2, max_reads=100, backoff=0.02, backoff_max=0.1)
def run_one_in_a_transaction(message: Message) -> None:
    _run(message)
