"""Receivers of the signals of tasks, connected for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from django_dbqueue.tasks import compat

ENDS: Final = ("task_started", "task_finished")
"""The two ends of an attempt."""


@contextmanager
def hearing(receiver: Callable[..., Any], *names: str) -> Iterator[None]:
    """Connect a receiver to these signals while the block runs."""
    with ExitStack() as stack:
        for name in names:
            compat.signal(name).connect(receiver)
            stack.callback(compat.signal(name).disconnect, receiver)
        yield
