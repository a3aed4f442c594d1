"""A call of a function in another queue, as a task here: with the task's own options, as if it were enqueued now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from django_dbqueue.importers.source import IMPORTED_FROM, Addressed, NotImportable
from django_dbqueue.tasks.backend import DBQueueBackend
from django_dbqueue.tasks.compat import Task, TaskException
from django_dbqueue.tasks.envelopes import envelope_of
from django_dbqueue.tasks.options import options_of

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyTask


def addressed(path: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, origin: str, **changes: Any) -> Addressed:
    """Return the message of a call, and its queue; NotImportable says why it can't be a task here.

    ``changes`` is what the call says differently from its task: ``queue_name``, ``priority``, ``run_after``,
    ``backend``.
    """
    task, why = _task_at(path)
    if task is None:
        raise NotImportable(why)
    try:
        task = task.using(**changes)
        backend = task.get_backend()
        if not isinstance(backend, DBQueueBackend):
            raise NotImportable(
                _("The backend %(alias)r in TASKS is %(backend)s, not DBQueueBackend, so nobody would run the task.")
                % {"alias": task.backend, "backend": type(backend).__name__}
            )
        backend.validate_task(task)
        envelope = envelope_of(task, args, kwargs, options_of(task, backend.options), backend.alias)
    except (TaskException, ImproperlyConfigured, TypeError, ValueError) as error:
        raise NotImportable(
            _("The task %(path)s can't be enqueued so: %(error)s") % {"path": path, "error": error}
        ) from error
    headers = {**(envelope.headers or {}), IMPORTED_FROM: origin}
    return Addressed(task.queue_name, replace(envelope, headers=headers))


@cache
def _task_at(path: str) -> tuple[AnyTask | None, str]:
    """Return the task at a dotted path, or why there is none."""
    try:
        found = import_string(path)
    except Exception as error:  # whatever the module raises
        why = _("The task %(path)s can't be imported: %(error)s") % {"path": path, "error": _one_line(error)}
        return None, why
    if not isinstance(found, Task):
        return None, _("%(path)s is %(what)s, not a task: decorate the function with @task.") % {
            "path": path,
            "what": type(found).__name__,
        }
    return found, ""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
