"""What a task may set beside Django's own options, and where it is set: by the task, its queue, its backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack

from django.conf import settings
from django.core.signals import setting_changed

from django_dbqueue import conf
from django_dbqueue.exceptions import InvalidMessage, InvalidSchedule
from django_dbqueue.schedules.declarations import Missed, of_function
from django_dbqueue.settable.kinds import shown
from django_dbqueue.settable.option_table import OPTIONS_OF, SetIn, read_options
from django_dbqueue.tasks.compat import InvalidTask, Task

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyTask

Function = TypeVar("Function", bound=Callable[..., object])
Pairs = tuple[tuple[str, Any], ...]
BackoffInSeconds = float | Callable[[BaseException, Any], float | timedelta | None]
Backoff = BackoffInSeconds | timedelta
GroupOf = str | Callable[..., str | None]

ATTRIBUTE: Final = "_dbqueue_task_options"
"""Where ``task_options`` leaves what it was given, on the function."""
scheduled_paths: Final[dict[str, str]] = {}
"""Dotted paths of functions with a cron, and the modules that they are in."""


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """A task's options, resolved: ``settable/option_table.py`` says what each does. None: that of its queue."""

    max_attempts: int | None = None
    backoff: BackoffInSeconds | None = None
    lease: float | None = None
    timeout: float | None = None
    interruptible: bool | None = None
    transactional: bool = False
    keep_results: float | None = None
    group: GroupOf | None = None

    @property
    def is_about_its_run(self) -> bool:
        """Whether it sets what must hold while it runs."""
        return self.timeout is not None or self.interruptible is not None

    def over(self, of_queue: conf.QueueOptions) -> conf.QueueOptions:
        """Return what holds for the task's messages, whose queue has these options, once they are claimed."""
        own = {"timeout": self.timeout, "interruptible": self.interruptible}
        changes: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
        if self.backoff is not None and not callable(self.backoff):
            changes |= {"backoff": self.backoff, "backoff_max": max(self.backoff, of_queue.backoff_max)}
        return replace(of_queue, **changes) if changes else of_queue


NAMES: Final = tuple(each.name for each in fields(TaskOptions))
_OF_BACKEND: Final = "OPTIONS of the backend"
_DEFAULTS: Final = {
    name: OPTIONS_OF[SetIn.BACKEND][name].default for name in NAMES if not OPTIONS_OF[SetIn.BACKEND][name].of_queue
}
_OF_QUEUE: Final = {each.of_queue: each.name for each in OPTIONS_OF[SetIn.BACKEND].values() if each.of_queue}
"""Options of a queue that override a backend's, and what a task calls them."""


class TaskKeywords(TypedDict, total=False):
    """What ``@task_options`` takes, and ``@task`` where it takes keywords of a backend."""

    max_attempts: int | None
    backoff: Backoff | None
    lease: float | timedelta | None
    timeout: float | timedelta | None
    interruptible: bool
    transactional: bool
    keep_results: float | timedelta | None
    group: GroupOf | None
    cron: str | None
    timezone: str | None
    missed: Missed


def task_options(**options: Unpack[TaskKeywords]) -> Callable[[Function], Function]:
    """Set options of a task, written below ``@task`` or above it: for Django 6.0, whose ``@task`` takes none.

    They are the keywords of ``@task`` on Django 6.1. With ``cron``, every worker makes sure that the task is enqueued
    at each due time, with its own defaults as arguments. InvalidTask says what can't be.
    """
    used = read_task_options(SetIn.TASK, options, "task_options()")

    def mark(function: Function) -> Function:
        target: Any = function.func if isinstance(function, Task) else function
        setattr(target, ATTRIBUTE, getattr(target, ATTRIBUTE, {}) | used)
        _resolved.cache_clear()  # above @task, the function is a task already, and may have been asked for its options
        note_schedule(target, used.get("cron"))
        return function

    return mark


def read_task_options(place: SetIn, options: Mapping[str, Any], called: str) -> dict[str, Any]:
    """Return options of a task as they are used; InvalidTask says, of ``called``, which can't be, and why."""
    if not isinstance(options, Mapping):
        raise InvalidTask(f"{called} must be a dict of options, not {shown(options)}.")
    try:
        if place is SetIn.TASK:
            of_function("It", "tasks", options)
        return read_options(place, options, called=f"{called}: ")
    except TypeError as error:
        raise InvalidTask(f"{called} {error}") from None
    except InvalidSchedule as error:
        raise InvalidTask(f"{called}: {error}") from error
    except InvalidMessage as error:
        raise InvalidTask(str(error)) from error


def note_schedule(function: Callable[..., object], cron: str | None) -> None:
    """Note that a function has a cron, if it has: workers look for it by its path, as for every task."""
    if cron is not None and "<locals>" not in function.__qualname__:  # no task, as @task says
        scheduled_paths[f"{function.__module__}.{function.__qualname__}"] = function.__module__


def own_options(task: AnyTask) -> dict[str, Any]:
    """Return what a task's own keywords set."""
    return {name: value for name in OPTIONS_OF[SetIn.TASK] if (value := getattr(task, name, None)) is not None}


def check_own_options(task: AnyTask) -> None:
    """Raise InvalidTask unless what the task's own keywords set can be: each ``enqueue()`` and ``using()`` asks."""
    if not (own := own_options(task)):
        return
    called = f"The task {task.module_path}"
    try:
        _fit(called, tuple((name, type(value), value) for name, value in own.items()))
    except TypeError:  # it can't be remembered
        read_task_options(SetIn.TASK, own, called)


@lru_cache(maxsize=10_000)
def _fit(called: str, own: tuple[tuple[str, type, Any], ...]) -> None:
    """Check them once: to read a cron takes longer than to store a message. 1 and True are equal, so types count."""
    read_task_options(SetIn.TASK, {name: value for name, _, value in own}, called)


def schedule_of(task: AnyTask) -> dict[str, object] | None:
    """Return the schedule that a task's options amount to, in the form of ``SCHEDULES``; None if it has no cron."""
    options = {**getattr(task.func, ATTRIBUTE, {}), **own_options(task)}
    return of_function(f"The task {task.module_path}", task.queue_name, options)


def options_of(task: AnyTask, backend_options: dict[str, Any]) -> TaskOptions:
    """Return what holds for a task: what the task says, then its queue, then its backend."""
    own = tuple((name, value) for name in NAMES if (value := getattr(task, name, None)) is not None)
    try:
        general = tuple((name, backend_options[name]) for name in NAMES if name in backend_options)
        return _resolved(task.func, own, task.queue_name, general)
    except TypeError:  # no dict, or what can't be remembered: a list, or a callable that compares by its fields
        read_task_options(SetIn.BACKEND, backend_options, _OF_BACKEND)  # which says what can't be
        return _resolved.__wrapped__(task.func, own, task.queue_name, general)


@cache
def _resolved(function: Callable[..., object], own: Pairs, queue: str, general: Pairs) -> TaskOptions:
    of_queue = getattr(settings, conf.NAME, {}).get("QUEUES", {}).get(queue, {})
    chosen = _DEFAULTS | read_task_options(SetIn.BACKEND, dict(general), _OF_BACKEND)
    for word, name in _OF_QUEUE.items():
        if word in of_queue:  # what the message doesn't set is the queue's when it is claimed
            chosen.pop(name, None)
    named = {name: value for name, value in getattr(function, ATTRIBUTE, {}).items() if name in NAMES}
    return TaskOptions(**{**chosen, **named, **read_task_options(SetIn.TASK, dict(own), "@task")})


def _forget(*, setting: str, **_: object) -> None:
    if setting in ("TASKS", conf.NAME):
        _resolved.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_dbqueue.tasks.options")
