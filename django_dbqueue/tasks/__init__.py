"""The queue behind ``django.tasks``: a backend for ``@task``, on Django 6 and with the backport on Django 5.2.

``TASKS = {"default": {"BACKEND": "django_dbqueue.tasks.DBQueueBackend", "QUEUES": [...], "OPTIONS": {...}}}``. See
``docs/tasks.md``. The names below are imported on first use: a project without tasks needs no backport.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_dbqueue.lazy_names import names_on_first_use

if TYPE_CHECKING:
    from django_dbqueue.tasks.backend import DBQueueBackend as DBQueueBackend
    from django_dbqueue.tasks.options import task_options as task_options
    from django_dbqueue.tasks.task import DBQueueTask as DBQueueTask
    from django_dbqueue.tasks.waiting import await_for as await_for
    from django_dbqueue.tasks.waiting import wait_for as wait_for

__getattr__, __dir__, __all__ = names_on_first_use(
    __name__,
    {
        "backend": ("DBQueueBackend",),
        "task": ("DBQueueTask",),
        "waiting": ("await_for", "wait_for"),
        "options": ("task_options",),
    },
)
