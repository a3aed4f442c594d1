"""The errors that a task's result shows: one for each attempt that failed, and why it was dropped, if it was."""

from __future__ import annotations

import builtins
from typing import Any, Final

from django_dbqueue.consumers import Retry
from django_dbqueue.exceptions import MessageDropped, TaskExpired
from django_dbqueue.failures.fingerprint import kind_of, traceback_of
from django_dbqueue.models import MessageEvent
from django_dbqueue.models.archived_message import outcome_of
from django_dbqueue.statements.events_sql import INTERRUPTED, LOST, REJECT, REJECTED, RESCUED
from django_dbqueue.tasks.compat import TaskError
from django_dbqueue.tasks.task_headers import EXPIRED


def dropped(row: Any) -> list[TaskError]:
    """Return why a message was dropped, if it was: no attempt of its task says that."""
    if outcome_of(row) != "dropped" or row.error is None:
        return []
    kind = TaskExpired if row.error.startswith(EXPIRED) else MessageDropped
    return [TaskError(exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback=f"{row.error}\n")]


def error_of(event: MessageEvent) -> TaskError:
    """Return the error of an attempt, of which this is the record."""
    text = event.detail or ""
    trace = "" if event.exception == REJECT else traceback_of(text)
    path = event.exception or _path_before(text, event.kind, is_traced=bool(trace))
    return TaskError(exception_class_path=path, traceback=f"{trace or text}\n")


_RETRY: Final = f"{Retry.__module__}.{Retry.__qualname__}"
_OF_OURS: Final = (("TimedOut: ", "builtins.TimeoutError"), ("TypeError: ", "builtins.TypeError"))
_WORKERS: Final = ("LeaseOver: ", "WorkerDied: ", "WorkerGone: ", "ReadsSpent: ", "Interrupted: ")


def _path_before(text: str, kind: str, *, is_traced: bool) -> str:
    """Return the path of the class of an error that was recorded without one, by an earlier release or by hand.

    What a text says of itself is believed only if it is a traceback, or one of our own: it may be anybody's reason.
    """
    if kind in (RESCUED, INTERRUPTED) or text.startswith(_WORKERS):
        return LOST
    name = kind_of(text).exception.partition(" (")[0] if is_traced else ""
    if isinstance(getattr(builtins, name, None), type):
        return f"builtins.{name}"
    if "." in name and " " not in name and (kind != REJECTED or name.startswith("django_dbqueue.")):
        return name
    found = next((path for begin, path in _OF_OURS if text.startswith(begin)), "")
    return found or (REJECT if kind == REJECTED else _RETRY)
