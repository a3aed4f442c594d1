"""The tasks of the benchmarks: they do what the consumer ``count`` does, and one of them returns something."""

from __future__ import annotations

from importlib import import_module

from benchmarks.queue.probe import hit
from django_dbqueue.tasks.compat import HOME

task = import_module(HOME).task


@task(queue_name="bench-tasks")
def count(n: int) -> None:
    hit(n)


@task(queue_name="bench-tasks")
def count_and_return(n: int) -> int:
    hit(n)
    return n
