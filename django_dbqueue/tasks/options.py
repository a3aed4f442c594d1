"""What a task may set beside Django's own options, and where it is set: by the task, its queue, its backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.conf import settings
from django.core.signals import setting_changed

from django_dbqueue import conf
from django_dbqueue.envelope import check_group, check_lease, check_seconds, check_whole
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.tasks.compat import InvalidTask, Task

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyTask

Function = TypeVar("Function", bound=Callable[..., object])
Pairs = tuple[tuple[str, Any], ...]
Backoff = float | Callable[[BaseException, Any], float]
GroupOf = str | Callable[..., str | None]

KEEP_RESULTS: Final = 14 * 86_400.0
"""Seconds for which results are kept, unless a backend or a task sets something else."""
ATTRIBUTE: Final = "_dbqueue_task_options"
"""Where ``task_options`` leaves what it was given, on the function."""


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """A task's options, resolved. Times are in seconds."""

    max_attempts: int | None = None
    """Deliveries until a failing task is FAILED; 0 means no limit, None that of the queue."""
    backoff: Backoff | None = None
    """The delay of a retry, or a callable of the error and the result that returns it; None: that of the queue."""
    lease: float | None = None
    """How long a worker may be silent before the task is run again; None: that of the queue."""
    transactional: bool = False
    """Whether what the body writes, the result and the ack are one commit."""
    keep_results: float | None = KEEP_RESULTS
    """For how long a result is kept; 0 or None: not at all."""
    group: GroupOf | None = None
    """The group of its messages, or a callable of the task's arguments that returns it, or None for none."""


NAMES: Final = tuple(each.name for each in fields(TaskOptions))
_OF_QUEUE: Final = {"max_reads": "max_attempts", "backoff": "backoff", "lease": "lease"}
"""Options of a queue that override a backend's, and what a task calls them."""


def task_options(**options: Any) -> Callable[[Function], Function]:
    """Set options of a task, written below ``@task`` or above it: for Django 6.0, whose ``@task`` takes none.

    ``max_attempts``, ``backoff``, ``lease``, ``transactional``, ``keep_results`` and ``group``, as keywords of
    ``@task`` on Django 6.1. InvalidTask names what can't be.
    """
    check_options(options, "task_options()")

    def mark(function: Function) -> Function:
        target: Any = function.func if isinstance(function, Task) else function
        setattr(target, ATTRIBUTE, getattr(target, ATTRIBUTE, {}) | options)
        _resolved.cache_clear()  # above @task, the function is a task already, and may have been asked for its options
        return function

    return mark


def check_options(options: dict[str, Any], place: str) -> None:
    """Raise InvalidTask if an option doesn't exist or can't have this value."""
    for name, value in options.items():
        if name not in NAMES:
            raise InvalidTask(f"{place} has no option {name!r}; the options are {', '.join(NAMES)}.")
        try:
            _check_option(name, value)
        except InvalidMessage as error:
            raise InvalidTask(f"{place}: {error}") from error


def _check_option(name: str, value: Any) -> None:
    if value is None and name != "transactional":
        return
    if name == "max_attempts":
        check_whole(name, value, low=0, high=2_000_000_000)
    elif name == "lease":
        check_lease(value)
    elif name == "transactional":
        if not isinstance(value, bool):
            raise InvalidMessage(f"transactional must be True or False, not {value!r}.")
    elif name == "group":
        if not callable(value):
            check_group(value)
    elif not (name == "backoff" and callable(value)):
        check_seconds(name, value)


def options_of(task: AnyTask, backend_options: dict[str, Any]) -> TaskOptions:
    """Return what holds for a task: what the task says, then its queue, then its backend."""
    own = tuple((name, value) for name in NAMES if (value := getattr(task, name, None)) is not None)
    general = tuple((name, backend_options[name]) for name in NAMES if name in backend_options)
    return _resolved(task.func, own, task.queue_name, general)


@cache
def _resolved(function: Callable[..., object], own: Pairs, queue: str, general: Pairs) -> TaskOptions:
    of_queue = getattr(settings, conf.NAME, {}).get("QUEUES", {}).get(queue, {})
    chosen = dict(general)
    for word, name in _OF_QUEUE.items():
        if word in of_queue:  # what the message doesn't set is the queue's when it is claimed
            chosen.pop(name, None)
    return TaskOptions(**{**chosen, **getattr(function, ATTRIBUTE, {}), **dict(own)})


def _forget(*, setting: str, **_: object) -> None:
    if setting in ("TASKS", conf.NAME):
        _resolved.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_dbqueue.tasks.options")
