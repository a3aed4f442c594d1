"""The backends of ``TASKS`` that are this one; one that can't be imported is none."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

if TYPE_CHECKING:
    from django_dbqueue.tasks.backend import DBQueueBackend

logger = logging.getLogger("django_dbqueue.tasks")


def backends() -> dict[str, DBQueueBackend]:
    """Return the backends of the settings that are this one, by alias."""
    ours = [alias for alias, path in _paths().items() if _is_ours(path)]
    if not ours:
        return {}
    from django_dbqueue.tasks.compat import task_backends

    return {alias: task_backends[alias] for alias in ours}


def let_django_check_them() -> None:
    """Let Django ask the backends of the settings for their checks: where nobody has imported its tasks, it doesn't.

    A backend that can't be imported is an error of ours, where Django's check ends with an exception.
    """
    try:
        if not backends() or unimportable():
            return
        from django_dbqueue.tasks.compat import HOME

        import_module(f"{HOME}.checks")
    except Exception:  # no process fails to start by a check; a worker asks the backends itself
        logger.debug("the backends of TASKS are not checked here", exc_info=True)


def unimportable() -> dict[str, Exception]:
    """Return why a backend can't be imported, by the alias of each that can't."""
    found: dict[str, Exception] = {}
    for alias, path in _paths().items():
        try:
            import_string(str(path))
        except (ImportError, ImproperlyConfigured) as error:
            found[alias] = error
    return found


def _paths() -> dict[str, object]:
    """Return what ``TASKS`` has for the class of each backend; '' where it has none."""
    configured = getattr(settings, "TASKS", {})
    if not isinstance(configured, dict):
        return {}
    return {alias: each.get("BACKEND", "") if isinstance(each, dict) else "" for alias, each in configured.items()}


def _is_ours(path: object) -> bool:
    if not isinstance(path, str):
        return False
    try:
        found = import_string(path)
    except ImportError:
        return False
    from django_dbqueue.tasks.backend import DBQueueBackend

    return isinstance(found, type) and issubclass(found, DBQueueBackend)
