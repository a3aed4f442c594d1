"""A task as a message: the payload is its arguments, the headers name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from django.utils import timezone

from django_dbqueue.envelope import Envelope
from django_dbqueue.tasks.compat import normalize_json

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyTask
    from django_dbqueue.tasks.options import TaskOptions

TASK: Final = "dbqueue.task"
"""The header that names the task: its module and its name there."""
BACKEND: Final = "dbqueue.backend"
"""The alias of its backend, unless it is ``default``."""
EXPIRES: Final = "dbqueue.expires"
"""When it is too late to run it, in ISO 8601."""
DEFAULT: Final = "default"


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
