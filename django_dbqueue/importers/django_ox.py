"""django-ox: rows that are READY become tasks here.

Its worker locks a row, marks it RUNNING and commits, or does so in one UPDATE of a row that is still READY; so a row
that is READY under our lock is nobody's. What its schedules have sent is named by a row of theirs, which forgets it in
the same commit, as when django-ox prunes. Members of a batch or a workflow of its app ``oxpull`` stay: where a member's
row is gone, that app takes it for one that has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from django.apps.registry import Apps
from django.db import connections, models
from django.db.models import Count, Exists, OuterRef, Q
from django.utils.translation import gettext as _

from django_dbqueue.importers.source import Addressed, ImportSource, NotImportable, SourceCounts, StoredJSON
from django_dbqueue.importers.task_calls import addressed

_APPS: Final = Apps()
_ENDED: Final = ("SUCCESSFUL", "FAILED", "LOST", "DISCARDED")
"""The others are READY, RUNNING, WAITING, which is what another package holds back, and what later versions have."""


class OxTask(models.Model):  # noqa: DJ008 - no person sees it
    """A row as django-ox 1.9 makes it, as far as it is read."""

    id = models.UUIDField(primary_key=True)
    task_path = models.CharField(max_length=255)
    args = StoredJSON()
    kwargs = StoredJSON()
    queue_name = models.CharField(max_length=128)
    priority = models.SmallIntegerField()
    backend_name = models.CharField(max_length=128)
    status = models.CharField(max_length=10)
    run_after = models.DateTimeField(null=True)
    enqueued_at = models.DateTimeField()

    class Meta:
        apps = _APPS
        app_label = "dbqueue_importers"
        db_table = "django_ox_oxtask"
        managed = False


class ScheduleTick(models.Model):  # noqa: DJ008 - no person sees it
    """A due time that its schedules have met: which task they sent, by a foreign key of the database."""

    id = models.BigAutoField(primary_key=True)
    task_id = models.UUIDField(null=True)

    class Meta:
        apps = _APPS
        app_label = "dbqueue_importers"
        db_table = "django_ox_oxscheduletick"
        managed = False


class _Member(models.Model):
    """A task of something of ``oxpull``."""

    id = models.BigAutoField(primary_key=True)
    task_id = models.UUIDField()

    class Meta:
        apps = _APPS
        app_label = "dbqueue_importers"
        managed = False
        abstract = True


class BatchMember(_Member):  # noqa: DJ008 - no person sees it
    """A task of a batch."""

    class Meta(_Member.Meta):
        db_table = "oxpull_oxpullbatchmember"


class WorkflowNode(_Member):  # noqa: DJ008 - no person sees it
    """A task of a workflow."""

    class Meta(_Member.Meta):
        db_table = "oxpull_oxpullworkflownode"


class DjangoOx(ImportSource):
    """Tasks keep their queue, their backend's alias, priority and ``run_after``; attempts are counted from none."""

    name: ClassVar[str] = "django-ox"
    model = OxTask
    dependents = (ScheduleTick,)
    order = ("enqueued_at", "id")

    def waiting(self, using: str) -> Q:
        ready = Q(status="READY")
        for members in _members(using):
            ready &= ~Q(Exists(members._base_manager.using(using).filter(task_id=OuterRef("pk"))))
        return ready

    def counts(self, using: str) -> SourceCounts:
        rows = OxTask._base_manager.using(using)
        counts = dict(rows.order_by().values_list("status").annotate(count=Count("id")))
        waiting = rows.filter(self.waiting(using)).count()
        ended = sum(counts.pop(each, 0) for each in _ENDED)
        return SourceCounts(waiting, max(0, sum(counts.values()) - waiting), ended)

    def read(self, row: Any) -> Addressed:
        if not isinstance(row.args, list) or not isinstance(row.kwargs, dict):
            raise NotImportable(_("Its arguments are not stored as django-ox stores them."))
        return addressed(
            row.task_path,
            row.args,
            row.kwargs,
            origin=self.origin(row),
            queue_name=row.queue_name,
            priority=row.priority,
            run_after=row.run_after,
            backend=row.backend_name,
        )

    def forget(self, using: str, keys: Sequence[Any]) -> None:
        ScheduleTick._base_manager.using(using).filter(task_id__in=keys).update(task_id=None)


def _members(using: str) -> list[type[models.Model]]:
    """Return the tables of members that are there: projects have ``oxpull`` or not."""
    connection = connections[using]
    with connection.cursor() as cursor:
        there = set(connection.introspection.table_names(cursor))
    return [model for model in (BatchMember, WorkflowNode) if model._meta.db_table in there]


SOURCE: Final = DjangoOx()
