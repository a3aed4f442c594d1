"""Finding the task that a message names."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from django_dbqueue.tasks import compat
from django_dbqueue.tasks.compat import BaseTaskBackend, Task

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyTask


class Unfindable(Exception):
    """There is no such task here: no such module or backend, or one that fails as it is imported; or it is no task."""


def find_task(path: str, alias: str) -> tuple[AnyTask, BaseTaskBackend]:
    """Return the task at a dotted path, and its backend; Unfindable if there is none here.

    A module that raises is half a release, or one for other settings: as good as a module that isn't there.
    """
    task = import_task(path)
    try:
        return task, compat.task_backends[alias]
    except (Exception, SystemExit) as error:
        raise Unfindable(_error_line(error)) from error


def import_task(path: str) -> AnyTask:
    """Return the task at a dotted path; Unfindable if there is none here."""
    try:
        found: Any = import_string(path)
    except (Exception, SystemExit) as error:
        raise Unfindable(_error_line(error)) from error
    if not isinstance(found, Task):
        raise Unfindable(f"it is no task, but {type(found).__name__}")
    return found


def is_imported(path: str) -> bool:
    """Return whether this process has the task at a dotted path, without importing anything: it may be any text."""
    module, _, name = path.rpartition(".")
    return isinstance(getattr(sys.modules.get(module), name, None), Task)


def _error_line(error: BaseException) -> str:
    """Return what an import raised in a line, with its class if the text alone would not tell it."""
    text = " ".join(str(error).split())
    if text and isinstance(error, ImportError | ImproperlyConfigured):
        return text
    return f"{type(error).__name__}: {text}".rstrip(": ")
