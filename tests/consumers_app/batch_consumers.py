"""What gets a list of messages, and does what they say; each call and each step is a line in the log file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from django_dbqueue import consumer
from django_dbqueue.models import Queue
from tests.consumers_app.noting import note

if TYPE_CHECKING:
    from django_dbqueue.models import Message


@consumer("batches", batch=50, max_reads=3, backoff=0.05, backoff_max=0.2)
@consumer("batches-transactional", batch=50, transactional=True, max_reads=3, backoff=0.05, backoff_max=0.2)
@consumer("batches-timed", batch=50, transactional=True, timeout=0.5, max_reads=1)
@consumer("batches-short-lease", batch=50, transactional=True, lease=2, max_reads=3, backoff=0.05, backoff_max=0.2)
@consumer("batches-patient", batch=5, batch_wait=50.0, max_reads=3)
@consumer("batches-hasty", batch=500, batch_wait=0.05, max_reads=3)
def take_many(messages: list[Message]) -> None:
    note("call", messages[0], ids=[message.pk for message in messages])
    for gate in (Path(message.payload["file"]) for message in messages if "file" in message.payload):
        while not gate.exists():  # before anything is written: SQLite has one writer
            time.sleep(0.01)
    for message in messages:
        what = message.payload
        Queue.objects.create(name=f"effect-{message.pk}")
        if what["do"] == "fail":
            raise ValueError("as told")
        if what["do"] == "reject":
            message.reject("as told")
        if what["do"] == "die":
            os._exit(9)
        if what["do"] == "hang":
            time.sleep(600)
    note("returned", messages[0])
