"""Which queues have tasks: those of the backends in ``TASKS`` that are this one, unless a consumer has them."""

from __future__ import annotations

from collections.abc import Iterable

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.tasks.backends_in_use import backends
from django_dbqueue.tasks.task_headers import ANY_QUEUE


def task_consumers(named: Iterable[str] = ()) -> dict[str, Consumer]:
    """Return a consumer for each queue of the backends, and for the ``named`` ones if a backend takes any name."""
    queues: set[str] = set()
    for backend in backends().values():
        queues |= backend.queues or {*ANY_QUEUE, *named}
    return {queue: task_consumer(queue) for queue in sorted(queues, key=str)}


def task_consumer(queue: str) -> Consumer:
    """Return what runs the tasks of a queue."""
    from django_dbqueue.tasks.task_adapter import TaskAdapter

    return Consumer(queue, run_task, runner=TaskAdapter())


def run_task(message: object) -> None:
    """Stand for the tasks of a queue, where a consumer is named: its runner runs them, without a call of this."""
    raise NotImplementedError
