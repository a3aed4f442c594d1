"""``python -m django_dbqueue.testing.torture.worker_process ERRAND``: a real worker of the scratch queues."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from django.core.management import call_command

from django_dbqueue.testing.torture.errand import Errand, begin

if TYPE_CHECKING:
    from django_dbqueue.models import Message
    from django_dbqueue.testing.torture.event_log import History

PROCESSES = 2
THREADS = 3


class PlannedFailure(Exception):
    """A handler fails because its message says so."""


class Handler:
    """What both queues' consumers do: an effect in the ack's transaction, and notes of when it began and ended."""

    def __init__(self, errand: Errand, history: History, effects: str) -> None:
        self._errand = errand
        self._history = history
        self._effects = effects

    def __call__(self, message: Message) -> None:
        """Handle a message."""
        words = {"n": message.payload["n"], "reads": message.read_count}
        self._history.note("begin", queue=message.queue, group=message.group, **words)
        failed = True
        try:
            type(message).objects.using(self._errand.alias).enqueue({"n": words["n"]}, queue=self._effects)
            time.sleep(message.payload["seconds"])
            if message.read_count <= message.payload["fails"]:
                raise PlannedFailure(f"delivery {message.read_count} is to fail")
            failed = False
        finally:
            self._history.note("end", failed=failed, **words)


def main() -> None:
    """Work until stopped."""
    errand = begin()
    from django_dbqueue import consumer
    from django_dbqueue.testing.torture.event_log import History
    from django_dbqueue.testing.torture.scratch import Scratch
    from django_dbqueue.worker.timetable import Timetable

    # Schedules send to the project's own queues, which are none of this run's business
    Timetable.run = lambda *_args, **_words: None  # type: ignore[method-assign]
    scratch = Scratch(errand.scratch)
    for queue in scratch.worked:
        handler = Handler(errand, History(Path(errand.history)), scratch.effects)
        consumer(queue, transactional=True)(handler)
    call_command(
        "run_queue_worker",
        database=errand.alias,
        queues=",".join(scratch.worked),
        processes=PROCESSES,
        threads=THREADS,
        batch=20,
        grace=10.0,
    )


if __name__ == "__main__":
    main()
