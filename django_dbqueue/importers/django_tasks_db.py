"""django-tasks-db, and the backend of django-tasks that it came from: rows that are READY become tasks here.

Its worker locks a row, marks it RUNNING and commits, so a row that is READY under our lock is nobody's.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Final

from django.apps.registry import Apps
from django.db import models
from django.db.models import Count, Q
from django.utils.translation import gettext as _

from django_dbqueue.importers.source import Addressed, ImportSource, NotImportable, SourceCounts, StoredJSON
from django_dbqueue.importers.task_calls import addressed

NEVER_DELAYED: Final = 9998
"""The year from which on ``run_after`` means that the task was not delayed: it writes 9999-01-01 for that."""


class DBTaskResult(models.Model):  # noqa: DJ008 - no person sees it
    """A row as django-tasks-db 0.13 makes it, as far as it is read."""

    id = models.UUIDField(primary_key=True)
    status = models.CharField(max_length=10)
    enqueued_at = models.DateTimeField()
    args_kwargs = StoredJSON()
    priority = models.IntegerField()
    task_path = models.TextField()
    queue_name = models.CharField(max_length=32)
    backend_name = models.CharField(max_length=32)
    run_after = models.DateTimeField(null=True)

    class Meta:
        apps = Apps()
        app_label = "dbqueue_importers"
        db_table = "django_tasks_database_dbtaskresult"
        managed = False


class DjangoTasksDB(ImportSource):
    """Tasks keep their queue, their backend's alias, priority and ``run_after``."""

    name: ClassVar[str] = "django-tasks-db"
    model = DBTaskResult
    order = ("enqueued_at", "id")

    def waiting(self, using: str) -> Q:  # noqa: ARG002 - no clock is asked
        return Q(status="READY")

    def counts(self, using: str) -> SourceCounts:
        counts = dict(
            DBTaskResult._base_manager.using(using).order_by().values_list("status").annotate(count=Count("id"))
        )
        waiting, running = counts.pop("READY", 0), counts.pop("RUNNING", 0)
        return SourceCounts(waiting, running, sum(counts.values()))

    def read(self, row: Any) -> Addressed:
        call = row.args_kwargs if isinstance(row.args_kwargs, dict) else {}
        args, kwargs = call.get("args"), call.get("kwargs")
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise NotImportable(_("Its arguments are not stored as django-tasks-db stores them."))
        return addressed(
            row.task_path,
            args,
            kwargs,
            origin=self.origin(row),
            queue_name=row.queue_name,
            priority=row.priority,
            run_after=_delayed_until(row.run_after),
            backend=row.backend_name,
        )


def _delayed_until(moment: datetime | None) -> datetime | None:
    return None if moment is None or moment.year >= NEVER_DELAYED else moment


SOURCE: Final = DjangoTasksDB()
