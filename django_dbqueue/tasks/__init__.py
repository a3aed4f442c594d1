"""The queue behind ``django.tasks``: a backend for ``@task``, on Django 6 and with the backport on Django 5.2.

``TASKS = {"default": {"BACKEND": "django_dbqueue.tasks.DBQueueBackend", "QUEUES": [...], "OPTIONS": {...}}}``. See
``docs/tasks.md``. The names below are imported on first use: a project without tasks needs no backport.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_dbqueue.tasks.backend import DBQueueBackend as DBQueueBackend
    from django_dbqueue.tasks.options import task_options as task_options
    from django_dbqueue.tasks.task import DBQueueTask as DBQueueTask
    from django_dbqueue.tasks.waiting import await_for as await_for
    from django_dbqueue.tasks.waiting import wait_for as wait_for

_HOMES = {
    "DBQueueBackend": "backend",
    "DBQueueTask": "task",
    "await_for": "waiting",
    "task_options": "options",
    "wait_for": "waiting",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
