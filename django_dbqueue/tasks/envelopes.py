"""A task as a message: the payload is its arguments, the headers name it."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django_dbqueue import conf
from django_dbqueue.envelope import Envelope, check_moment
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.tasks.compat import InvalidTask
from django_dbqueue.tasks.json_values import TooLarge, in_json
from django_dbqueue.tasks.task_functions import check_is_found
from django_dbqueue.tasks.task_headers import BACKEND, DEFAULT, EXPIRES, TASK
from django_dbqueue.tasks.task_moments import aware

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyTask
    from django_dbqueue.tasks.options import TaskOptions


def check_containers(task: AnyTask, args: object, kwargs: object) -> None:
    """Raise InvalidTask unless these hold arguments by position and by name."""
    if not isinstance(args, list | tuple):
        raise InvalidTask(f"{task.module_path}: its args must be a list or a tuple, not {reprlib.repr(args)}.")
    if not isinstance(kwargs, Mapping):
        raise InvalidTask(f"{task.module_path}: its kwargs must be a dict, not {reprlib.repr(kwargs)}.")


def envelope_of(
    task: AnyTask,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: TaskOptions,
    alias: str,
    *,
    expires: datetime | None = None,
    group: str | None = None,
) -> Envelope:
    """Return the message of a task; TypeError or ValueError for arguments that JSON can't express.

    InvalidTask if a worker couldn't find the task.
    """
    check_is_found(task)
    check_containers(task, args, kwargs)
    headers = {TASK: task.module_path}
    if alias != DEFAULT:
        headers[BACKEND] = alias
    if expires is not None:
        headers[EXPIRES] = _expiry(expires).isoformat()
    return Envelope(
        {"args": _in_json(task, list(args)), "kwargs": _in_json(task, dict(kwargs))},
        at=None if task.run_after is None else aware(task.run_after),
        priority=task.priority,
        max_reads=options.max_attempts,
        lease=options.lease,
        headers=headers,
        group=_group_of(task, args, kwargs, options) if group is None else group,
    )


def _in_json(task: AnyTask, value: list[Any] | dict[str, Any]) -> Any:
    try:
        return in_json(value, most_bytes=conf.get("MAX_PAYLOAD_BYTES"))
    except TooLarge as error:
        raise InvalidTask(f"{task.module_path}: of its arguments, {error}.") from error
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"{task.module_path}: JSON can't express these arguments: {error}. Besides what it can, UUIDs, datetimes, "
            "dates, times, timedeltas and Decimals may be sent, and dicts with string keys."
        ) from error


def _group_of(task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any], options: TaskOptions) -> str | None:
    """Return the group that the task's option gives a call; InvalidTask says why a callable could not."""
    if not callable(options.group):
        return options.group
    try:
        return options.group(*args, **kwargs)
    except Exception as error:
        raise InvalidTask(
            f"{task.module_path}: its option group, a function of its arguments, raised {type(error).__name__}: {error}"
        ) from error


def _expiry(expires: datetime) -> datetime:
    """Return when a task expires, in UTC; InvalidTask for what isn't a moment, or is too late for the database."""
    try:
        return check_moment(conf.aware(expires), name="expires")
    except InvalidMessage as error:
        raise InvalidTask(str(error)) from error
