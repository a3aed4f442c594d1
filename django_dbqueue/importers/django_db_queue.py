"""django-db-queue: jobs that are NEW or READY become messages for a consumer, which gets name, task and workspace.

Its worker locks a job, marks it PROCESSING and commits, so a job that waits under our lock is nobody's. A job of
several tasks is READY again between two of them, and its ``next_task`` says where it stands.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django.apps.registry import Apps
from django.db import models
from django.db.models import Count, Q
from django.utils import timezone
from django.utils.translation import gettext as _

from django_dbqueue.consumers import registry
from django_dbqueue.envelope import Envelope
from django_dbqueue.importers.source import (
    IMPORTED_FROM,
    Addressed,
    ImportSource,
    NotImportable,
    SourceCounts,
    StoredJSON,
)
from django_dbqueue.tasks.sources import task_consumers


class ForeignJob(models.Model):  # noqa: DJ008 - no person sees it
    """A row as django-db-queue 3.3 makes it, as far as it is read."""

    id = models.UUIDField(primary_key=True)
    created = models.DateTimeField()
    name = models.CharField(max_length=100)
    state = models.CharField(max_length=20)
    next_task = models.CharField(max_length=100)
    workspace = StoredJSON(null=True)
    queue_name = models.CharField(max_length=20)
    priority = models.SmallIntegerField()
    run_after = models.DateTimeField(null=True)

    class Meta:
        apps = Apps()
        app_label = "dbqueue_importers"
        db_table = "django_dbq_job"
        managed = False


class DjangoDBQueue(ImportSource):
    """Jobs keep their queue, priority and ``run_after``; their payload is name, next task and workspace."""

    name: ClassVar[str] = "django-db-queue"
    model = ForeignJob
    order = ("created", "id")

    def waiting(self, using: str) -> Q:  # noqa: ARG002 - no clock is asked
        return Q(state__in=("NEW", "READY"))

    def counts(self, using: str) -> SourceCounts:
        counts = dict(ForeignJob._base_manager.using(using).order_by().values_list("state").annotate(count=Count("id")))
        waiting = counts.pop("NEW", 0) + counts.pop("READY", 0)
        running = counts.pop("PROCESSING", 0) + counts.pop("STOPPING", 0)
        return SourceCounts(waiting, running, sum(counts.values()))

    def read(self, row: Any) -> Addressed:
        if row.queue_name in _queues_of_tasks():
            raise NotImportable(
                _(
                    "Queue %(queue)r runs tasks, and jobs need a consumer: register one for it, and take it out of "
                    "TASKS."
                )
                % {"queue": row.queue_name}
            )
        due = row.run_after
        return Addressed(
            row.queue_name,
            Envelope(
                {"job": row.name, "next_task": row.next_task, "workspace": row.workspace},
                at=due if due is None or timezone.is_aware(due) else timezone.make_aware(due),
                priority=row.priority,
                headers={IMPORTED_FROM: self.origin(row)},
            ),
        )


def _queues_of_tasks() -> set[str]:
    registry.autodiscover()
    return set(task_consumers()) - set(registry.functions())


SOURCE: Final = DjangoDBQueue()
