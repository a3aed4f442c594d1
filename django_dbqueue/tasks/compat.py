"""The names of ``django.tasks``: Django's own, or those of the backport ``django-tasks`` where Django has none."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from django.core.exceptions import ImproperlyConfigured

if find_spec("django.tasks") is not None:
    HOME: Final = "django.tasks"
elif find_spec("django_tasks") is not None:
    HOME: Final = "django_tasks"  # type: ignore[misc]
else:
    raise ImproperlyConfigured(
        "django_dbqueue.tasks needs Django 6.0 or newer, or the backport: install django-dbqueue[tasks] and add "
        '"django_tasks" to INSTALLED_APPS.'
    )


def _name(module: str, *names: str) -> Any:
    """Return the first of these names that the module has: releases of the backport differ."""
    home = import_module(f"{HOME}{module}")
    return next(getattr(home, name) for name in names if hasattr(home, name))


if TYPE_CHECKING:
    from django.tasks import Task as Task
    from django.tasks import TaskContext as TaskContext
    from django.tasks import TaskResult as TaskResult
    from django.tasks import TaskResultStatus as TaskResultStatus
    from django.tasks.backends.base import BaseTaskBackend as BaseTaskBackend
    from django.tasks.base import TaskError as TaskError
    from django.tasks.exceptions import InvalidTask as InvalidTask
    from django.tasks.exceptions import TaskException as TaskException
    from django.tasks.exceptions import TaskResultDoesNotExist as TaskResultDoesNotExist

    AnyTask: TypeAlias = Task[..., Any]
    AnyResult: TypeAlias = TaskResult[..., Any]
else:
    Task = _name(".base", "Task")
    TaskContext = _name(".base", "TaskContext")
    TaskResult = _name(".base", "TaskResult")
    AnyTask, AnyResult = Task, TaskResult
    TaskResultStatus = _name(".base", "TaskResultStatus")
    TaskError = _name(".base", "TaskError")
    BaseTaskBackend = _name(".backends.base", "BaseTaskBackend")
    InvalidTask = _name(".exceptions", "InvalidTask", "InvalidTaskError")
    TaskException = _name(".exceptions", "TaskException")
    TaskResultDoesNotExist = _name(".exceptions", "TaskResultDoesNotExist")

task_backends: Final = _name("", "task_backends")


def is_in_process(backend: object) -> bool:
    """Return whether this is Django's immediate or dummy backend: it runs a task at once, or only notes it."""
    kinds = (_name(".backends.immediate", "ImmediateBackend"), _name(".backends.dummy", "DummyBackend"))
    return isinstance(backend, kinds)


@cache
def signal(name: str) -> Any:
    """Return ``task_enqueued``, ``task_started`` or ``task_finished``; their module needs the task backends."""
    return getattr(import_module(f"{HOME}.signals"), name)
