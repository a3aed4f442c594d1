"""The tasks of the benchmarks: they do what the consumers ``count`` and ``wait`` do, and two return something."""

from __future__ import annotations

import time
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


@task(queue_name="bench-tasks")
def wait(n: int) -> None:
    time.sleep(0.005)
    hit(n)


@task(queue_name="bench-tasks")
def wait_and_return(n: int) -> int:
    wait.func(n)
    return n
