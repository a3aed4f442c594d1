"""A task as a message: the payload is its arguments, the headers name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from django_dbqueue.envelope import Envelope
from django_dbqueue.tasks.compat import normalize_json
from django_dbqueue.tasks.task_headers import BACKEND, DEFAULT, EXPIRES, TASK

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyTask
    from django_dbqueue.tasks.options import TaskOptions


def envelope_of(
    task: AnyTask,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: TaskOptions,
    alias: str,
    *,
    expires: datetime | None = None,
) -> Envelope:
    """Return the message of a task; TypeError or ValueError for arguments that JSON can't express."""
    headers = {TASK: task.module_path}
    if alias != DEFAULT:
        headers[BACKEND] = alias
    if expires is not None:
        headers[EXPIRES] = _aware(expires).astimezone(UTC).isoformat()
    return Envelope(
        {"args": normalize_json(list(args)), "kwargs": normalize_json(dict(kwargs))},
        at=None if task.run_after is None else _aware(task.run_after),
        priority=task.priority,
        max_reads=options.max_attempts,
        lease=options.lease,
        headers=headers,
    )


def _aware(moment: datetime) -> datetime:
    """Return a moment with its zone; without USE_TZ a naive one is in the current zone."""
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)
