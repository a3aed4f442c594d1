"""System checks of the backend's settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core import checks

from django_dbqueue import conf
from django_dbqueue.consumers import consumer_modules
from django_dbqueue.consumers.registry import functions
from django_dbqueue.consumers.reserved import check_reserved
from django_dbqueue.envelope import check_queue
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.settable.option_table import SetIn
from django_dbqueue.tasks.compat import BaseTaskBackend, InvalidTask
from django_dbqueue.tasks.options import read_task_options
from django_dbqueue.tasks.task_headers import ANY_QUEUE


def check_backend(backend: BaseTaskBackend) -> list[checks.CheckMessage]:
    """Return what is wrong with a backend of ``TASKS``."""
    found: list[checks.CheckMessage] = []
    place = f"TASKS[{backend.alias!r}]"
    options: dict[str, Any] = {}
    try:
        options = read_task_options(SetIn.BACKEND, backend.options, f"{place}['OPTIONS']")
    except InvalidTask as error:
        found.append(checks.Error(str(error), id="dbqueue.E021"))
    if not conf.is_readable():
        return found
    consumer_modules.unimportable()  # whoever asks may have imported none; what can't be is another check's error
    return [*found, *_of_queues(backend, place, keeps_results=bool(options.get("keep_results", True)))]


def _of_queues(backend: BaseTaskBackend, place: str, *, keeps_results: bool) -> Iterator[checks.CheckMessage]:
    consumed = functions()
    if isinstance(given := settings.TASKS[backend.alias].get("QUEUES", []), str):
        yield checks.Error(f"{place}['QUEUES'] must be a list of names, not {given!r}.", id="dbqueue.E022")
        return
    for queue in sorted(map(str, backend.queues or ANY_QUEUE)):
        yield from check_reserved(queue, place)
    for queue in sorted(backend.queues, key=str):
        try:
            check_queue(queue)
        except InvalidMessage as error:
            yield checks.Error(f"{place}['QUEUES']: {error}", id="dbqueue.E022")
            continue
        if queue in consumed:
            yield checks.Error(
                f"The queue {queue!r} of {place} has the consumer {consumed[queue].name}, which gets its tasks.",
                hint="Give the consumer, or the tasks, a queue of their own.",
                id="dbqueue.E020",
            )
        elif conf.on_ack(queue) == conf.DELETE and keeps_results:
            yield checks.Warning(
                f"Acked messages of the queue {queue!r} are deleted, so that its tasks have no results.",
                hint="Set on_ack to 'keep' for it, or keep_results to 0 for its backend.",
                id="dbqueue.W020",
            )
    for queue in () if backend.queues else ANY_QUEUE:
        if queue in consumed:
            yield checks.Warning(
                f"{place} takes any queue, and tasks that name none go to {queue!r}: the consumer "
                f"{consumed[queue].name} gets them.",
                hint="Give the consumer a queue of its own, or name the queues of the tasks in QUEUES.",
                id="dbqueue.W022",
            )
