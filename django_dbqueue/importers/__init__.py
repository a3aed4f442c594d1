"""Taking over what waits in other queues of the same database: ``manage.py queue_import`` (P23).

Each source is a module of its own. It reads the other queue's table through a model that is known to nobody else, so
that the other package may be gone already.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from django_dbqueue.importers.source import ImportSource

_MODULES: Final = {
    "django-tasks-db": "django_tasks_db",
    "django-ox": "django_ox",
    "django-q2": "django_q2",
    "django-db-queue": "django_db_queue",
}
SOURCES: Final = tuple(_MODULES)
"""The queues whose messages can be taken over, by the names of their packages."""


def source_named(name: str) -> ImportSource:
    """Return a source; ImproperlyConfigured if it brings tasks, and there is no ``django.tasks`` here."""
    source: ImportSource = import_module(f"{__name__}.{_MODULES[name]}").SOURCE
    return source
