"""The tables of other queues, as the migrations of the named versions leave them: columns, defaults, indexes.

They are written down here so that the tests need none of these packages. ``create`` makes them with Django's own schema
editor, which those migrations use too.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.apps.registry import Apps
from django.db import connection, models
from django.db.models import F, Q

APPS = Apps()


class ConditionalPartialIndex(models.Index):
    """As in django-tasks-db: made also where the server knows no conditions or expressions."""

    contains_expressions = False


class DBTaskResult(models.Model):  # noqa: DJ008 - a table
    """django-tasks-db 0.13.0, migration 0021_conditional_partial_index_ordering."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    status = models.CharField(default="READY", max_length=10)
    enqueued_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    args_kwargs = models.JSONField()
    priority = models.IntegerField(default=0)
    task_path = models.TextField()
    worker_ids = models.JSONField(default=list)
    queue_name = models.CharField(default="default", max_length=32)
    backend_name = models.CharField(max_length=32)
    run_after = models.DateTimeField()
    return_value = models.JSONField(default=None, null=True)
    exception_class_path = models.TextField()
    traceback = models.TextField()

    class Meta:
        apps = APPS
        app_label = "django_tasks_database"
        db_table = "django_tasks_database_dbtaskresult"
        ordering = [F("priority").desc(), F("run_after").asc(), F("enqueued_at").asc()]
        indexes = [
            ConditionalPartialIndex(
                "status",
                F("priority").desc(),
                F("run_after").asc(),
                F("enqueued_at").asc(),
                name="tasks_db_new_ordering_idx",
                condition=Q(status="READY") if connection.features.supports_partial_indexes else None,
            ),
            models.Index(fields=["queue_name"], name="django_task_queue_n_99c321_idx"),
            models.Index(fields=["backend_name"], name="django_task_backend_071754_idx"),
        ]
        constraints = [models.CheckConstraint(condition=Q(priority__range=(-100, 100)), name="priority_range")]


class OrmQ(models.Model):  # noqa: DJ008 - a table
    """django-q2 1.11.1, migration 0019."""

    id = models.AutoField(primary_key=True)
    key = models.CharField(max_length=100)
    payload = models.TextField()
    lock = models.DateTimeField(null=True)

    class Meta:
        apps = APPS
        app_label = "django_q"
        db_table = "django_q_ormq"


class Job(models.Model):  # noqa: DJ008 - a table
    """django-db-queue 3.3.0, migration 0006_alter_job_state."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created = models.DateTimeField(auto_now_add=True, db_index=True)
    modified = models.DateTimeField(auto_now=True)
    name = models.CharField(max_length=100)
    state = models.CharField(max_length=20, default="NEW", db_index=True)
    next_task = models.CharField(max_length=100, blank=True)
    workspace = models.JSONField(null=True)
    queue_name = models.CharField(max_length=20, default="default", db_index=True)
    priority = models.SmallIntegerField(default=0, db_index=True)
    run_after = models.DateTimeField(null=True, db_index=True)

    class Meta:
        apps = APPS
        app_label = "django_dbq"
        db_table = "django_dbq_job"
        ordering = ["-priority", "created"]


class OxTask(models.Model):  # noqa: DJ008 - a table
    """django-ox 1.9.1, like the table below: the newest migration is 0008_waiting."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    task_path = models.CharField(max_length=255)
    args = models.JSONField(default=list, blank=True)
    kwargs = models.JSONField(default=dict, blank=True)
    queue_name = models.CharField(max_length=128, default="default")
    priority = models.SmallIntegerField(default=0)
    takes_context = models.BooleanField(default=False)
    backend_name = models.CharField(max_length=128)
    status = models.CharField(max_length=10, default="READY")
    run_after = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    max_attempts = models.PositiveSmallIntegerField(default=3)
    return_value = models.JSONField(null=True, blank=True)
    errors = models.JSONField(default=list, blank=True)
    worker_ids = models.JSONField(default=list, blank=True)
    enqueued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    last_attempted_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    locked_by = models.CharField(max_length=64, null=True, blank=True)
    locked_at = models.DateTimeField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    lease_epoch = models.BigIntegerField(default=0)

    class Meta:
        apps = APPS
        app_label = "django_ox"
        db_table = "django_ox_oxtask"
        indexes = [
            models.Index(fields=["status", "-priority", "enqueued_at"], name="ox_dequeue_idx"),
            models.Index(fields=["status", "queue_name", "-priority", "enqueued_at"], name="ox_dequeue_queue_idx"),
            models.Index(fields=["status", "locked_at"], name="ox_reaper_idx"),
            models.Index(fields=["status", "lease_expires_at"], name="ox_reaper_expiry_idx"),
        ]


class OxScheduleTick(models.Model):  # noqa: DJ008 - a table
    id = models.BigAutoField(primary_key=True)
    schedule_name = models.CharField(max_length=128)
    scheduled_for = models.DateTimeField()
    task = models.ForeignKey(OxTask, models.SET_NULL, null=True, blank=True, related_name="schedule_ticks")
    created_at = models.DateTimeField()

    class Meta:
        apps = APPS
        app_label = "django_ox"
        db_table = "django_ox_oxscheduletick"
        constraints = [models.UniqueConstraint(fields=["schedule_name", "scheduled_for"], name="ox_tick_uniq")]


class OxpullBatchMember(models.Model):  # noqa: DJ008 - a table
    """Of ``oxpull`` in django-ox 1.9.1, as far as it names tasks; so is the one below."""

    id = models.BigAutoField(primary_key=True)
    task_id = models.UUIDField()

    class Meta:
        apps = APPS
        app_label = "oxpull"
        db_table = "oxpull_oxpullbatchmember"


class OxpullWorkflowNode(models.Model):  # noqa: DJ008 - a table
    id = models.BigAutoField(primary_key=True)
    task_id = models.UUIDField(unique=True)

    class Meta:
        apps = APPS
        app_label = "oxpull"
        db_table = "oxpull_oxpullworkflownode"


class Solar(models.Model):  # noqa: DJ008 - a table
    """django-celery-beat 2.9.0, like the four below: the newest migration is 0019_alter_periodictasks_options."""

    id = models.AutoField(primary_key=True)
    event = models.CharField(max_length=24)
    latitude = models.DecimalField(max_digits=9, decimal_places=6)
    longitude = models.DecimalField(max_digits=9, decimal_places=6)

    class Meta:
        apps = APPS
        app_label = "django_celery_beat"
        db_table = "django_celery_beat_solarschedule"
        unique_together = ("event", "latitude", "longitude")


class Interval(models.Model):  # noqa: DJ008 - a table
    id = models.AutoField(primary_key=True)
    every = models.IntegerField()
    period = models.CharField(max_length=24)

    class Meta:
        apps = APPS
        app_label = "django_celery_beat"
        db_table = "django_celery_beat_intervalschedule"


class Clocked(models.Model):  # noqa: DJ008 - a table
    id = models.AutoField(primary_key=True)
    clocked_time = models.DateTimeField()

    class Meta:
        apps = APPS
        app_label = "django_celery_beat"
        db_table = "django_celery_beat_clockedschedule"


class Crontab(models.Model):  # noqa: DJ008 - a table
    id = models.AutoField(primary_key=True)
    minute = models.CharField(max_length=240, default="*")
    hour = models.CharField(max_length=96, default="*")
    day_of_month = models.CharField(max_length=124, default="*")
    month_of_year = models.CharField(max_length=64, default="*")
    day_of_week = models.CharField(max_length=64, default="*")
    timezone = models.CharField(max_length=63, default="UTC")

    class Meta:
        apps = APPS
        app_label = "django_celery_beat"
        db_table = "django_celery_beat_crontabschedule"


class PeriodicTask(models.Model):  # noqa: DJ008 - a table
    id = models.AutoField(primary_key=True)
    name = models.CharField(max_length=200, unique=True)
    task = models.CharField(max_length=200)
    interval = models.ForeignKey(Interval, models.CASCADE, null=True)
    crontab = models.ForeignKey(Crontab, models.CASCADE, null=True)
    solar = models.ForeignKey(Solar, models.CASCADE, null=True)
    clocked = models.ForeignKey(Clocked, models.CASCADE, null=True)
    args = models.TextField(blank=True, default="[]")
    kwargs = models.TextField(blank=True, default="{}")
    queue = models.CharField(max_length=200, null=True, default=None)
    exchange = models.CharField(max_length=200, null=True, default=None)
    routing_key = models.CharField(max_length=200, null=True, default=None)
    headers = models.TextField(blank=True, default="{}")
    priority = models.PositiveIntegerField(null=True, default=None)
    expires = models.DateTimeField(null=True)
    expire_seconds = models.PositiveIntegerField(null=True)
    one_off = models.BooleanField(default=False)
    start_time = models.DateTimeField(null=True)
    enabled = models.BooleanField(default=True)
    last_run_at = models.DateTimeField(null=True)
    total_run_count = models.PositiveIntegerField(default=0)
    date_changed = models.DateTimeField(auto_now=True)
    description = models.TextField(blank=True, default="")

    class Meta:
        apps = APPS
        app_label = "django_celery_beat"
        db_table = "django_celery_beat_periodictask"


@contextmanager
def hidden(table: type[models.Model]) -> Iterator[None]:
    """Give the table another name for a while."""
    name = table._meta.db_table
    with connection.schema_editor() as editor:
        editor.alter_db_table(table, name, "hidden")
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            editor.alter_db_table(table, "hidden", name)


@contextmanager
def created(*tables: type[models.Model]) -> Iterator[None]:
    """Create the tables for a while."""
    with connection.schema_editor() as editor:
        for table in tables:
            editor.create_model(table)
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            for table in reversed(tables):
                editor.delete_model(table)
