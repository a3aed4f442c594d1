"""The tasks of the benchmarks: they do what the consumer ``count`` does, and one of them returns something."""

from __future__ import annotations

from benchmarks.queue.probe import hit
from django_dbqueue.tasks.compat import HOME

if HOME == "django.tasks":
    from django.tasks import task
else:
    from django_tasks import task


@task(queue_name="bench-tasks")
def count(n: int) -> None:
    hit(n)


@task(queue_name="bench-tasks")
def count_and_return(n: int) -> int:
    hit(n)
    return n
