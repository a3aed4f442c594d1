"""Finding the task that a message names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.module_loading import import_string

from django_dbqueue.tasks import compat
from django_dbqueue.tasks.compat import BaseTaskBackend, Task

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyTask


class NotATask(Exception):
    """What the message names was found, but is something else."""


def find_task(path: str, alias: str) -> tuple[AnyTask, BaseTaskBackend]:
    """Return the task at a dotted path, and its backend.

    Raises NotATask, ImportError or ImproperlyConfigured if there is none here, and whatever its module raises.
    """
    task, backend = import_string(path), compat.task_backends[alias]
    if not isinstance(task, Task):
        raise NotATask(f"it is no task, but {type(task).__name__}")
    return task, backend
