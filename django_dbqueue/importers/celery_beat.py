"""django-celery-beat: its schedules as entries of ``DBQUEUE["SCHEDULES"]``, as far as cron can say them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from django.apps.registry import Apps
from django.db import models
from django.utils.translation import gettext as _

from django_dbqueue.exceptions import InvalidSchedule
from django_dbqueue.importers.foreign_table import check_tables
from django_dbqueue.importers.source import NotImportable
from django_dbqueue.models.fields import clock
from django_dbqueue.schedules.declarations import read

NAME: Final = "django-celery-beat"
_APPS: Final = Apps()
_SECONDS: Final = {"seconds": 1, "minutes": 60, "hours": 3_600, "days": 86_400}
_ODD: Final = re.compile(r"[^A-Za-z0-9_.:-]+")
"""What a schedule's name can't have."""


class Crontab(models.Model):  # noqa: DJ008 - no person sees it
    """A row as django-celery-beat 2.9 makes it."""

    id = models.AutoField(primary_key=True)
    minute = models.CharField(max_length=240)
    hour = models.CharField(max_length=96)
    day_of_month = models.CharField(max_length=124)
    month_of_year = models.CharField(max_length=64)
    day_of_week = models.CharField(max_length=64)
    timezone = models.CharField(max_length=63)

    class Meta:
        apps = _APPS
        app_label = "dbqueue_importers"
        db_table = "django_celery_beat_crontabschedule"
        managed = False


class Interval(models.Model):  # noqa: DJ008 - no person sees it
    """A row as django-celery-beat 2.9 makes it."""

    id = models.AutoField(primary_key=True)
    every = models.IntegerField()
    period = models.CharField(max_length=24)

    class Meta:
        apps = _APPS
        app_label = "dbqueue_importers"
        db_table = "django_celery_beat_intervalschedule"
        managed = False


class PeriodicTask(models.Model):  # noqa: DJ008 - no person sees it
    """A row as django-celery-beat 2.9 makes it, as far as it is read."""

    id = models.AutoField(primary_key=True)
    name = models.CharField(max_length=200)
    task = models.CharField(max_length=200)
    args = models.TextField()
    kwargs = models.TextField()
    crontab = models.ForeignKey(Crontab, models.DO_NOTHING, null=True)
    interval = models.ForeignKey(Interval, models.DO_NOTHING, null=True)
    solar_id = models.IntegerField(null=True)
    clocked_id = models.IntegerField(null=True)
    expires = models.DateTimeField(null=True)
    expire_seconds = models.PositiveIntegerField(null=True)
    one_off = models.BooleanField()
    start_time = models.DateTimeField(null=True)
    enabled = models.BooleanField()

    class Meta:
        apps = _APPS
        app_label = "dbqueue_importers"
        db_table = "django_celery_beat_periodictask"
        managed = False


@dataclass(slots=True)
class Schedules:
    """What became of the rows."""

    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For ``DBQUEUE["SCHEDULES"]``."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Schedules that can't be carried over: by their name there, why."""


def schedules(using: str, *, queue: str) -> Schedules:
    """Read the schedules; those that are carried over send to ``queue``, for a consumer that enqueues their tasks.

    Raises TableMissing, and SchedulesNotInstalled without cronsim, which checks the expressions.
    """
    check_tables(NAME, [PeriodicTask, Crontab, Interval], using)
    found = Schedules()
    for row in PeriodicTask._base_manager.using(using).select_related("crontab", "interval").order_by("name"):
        try:
            entry = _entry(row, using, queue)
            name = _name(row, found.entries)
            read(name, entry)
        except (NotImportable, InvalidSchedule) as error:
            found.reasons[row.name] = str(error)
        else:
            found.entries[name] = entry
    return found


def _entry(row: PeriodicTask, using: str, queue: str) -> dict[str, Any]:
    _refuse_what_a_schedule_has_not(row, using)
    when: dict[str, str] = {}
    if row.crontab is not None:
        when = {"cron": _cron_of_crontab(row.crontab), "timezone": row.crontab.timezone}
    elif row.interval is not None:
        when = {"cron": _cron_of_interval(row.interval)}
    call = {"task": row.task, "args": _json(row.args, list), "kwargs": _json(row.kwargs, dict)}
    return {"queue": queue, **when, "payload": call}


def _refuse_what_a_schedule_has_not(row: PeriodicTask, using: str) -> None:
    if row.task == "celery.backend_cleanup":
        raise NotImportable(_("It deletes Celery's results; workers here delete old results without a schedule."))
    if not row.enabled:
        raise NotImportable(_("It is disabled."))
    if row.one_off or row.clocked_id is not None:
        raise NotImportable(_("It is due only once: enqueue its task with run_after."))
    if row.solar_id is not None:
        raise NotImportable(_("It goes by the sun, which cron doesn't know."))
    if row.crontab is None and row.interval is None:
        raise NotImportable(_("It has neither a crontab nor an interval."))
    if row.expires is not None or row.expire_seconds is not None:
        raise NotImportable(_("It expires: check the header dbqueue.due in its consumer instead."))
    if row.start_time is not None and row.start_time.timestamp() > clock(using).timestamp():
        raise NotImportable(_("It begins later, at %(moment)s: add it then.") % {"moment": row.start_time.isoformat()})


def _cron_of_crontab(crontab: Crontab) -> str:
    fields = [
        "".join(text.split()) or "*"
        for text in (
            crontab.minute,
            crontab.hour,
            crontab.day_of_month,
            crontab.month_of_year,
            crontab.day_of_week,
        )
    ]
    if fields[2] != "*" and fields[4] != "*":
        raise NotImportable(
            _(
                "It names days of the month and of the week: Celery means both, cron either of them. Check one of the "
                "two in its consumer."
            )
        )
    return " ".join(fields)


def _cron_of_interval(interval: Interval) -> str:
    """Return the expression of an interval that divides a minute, an hour or a day; it counts from their start."""
    seconds = interval.every * _SECONDS.get(interval.period, 0)
    if 0 < seconds < 60 and 60 % seconds == 0:
        return f"*/{seconds} * * * * *"
    if 60 <= seconds < 3_600 and 3_600 % seconds == 0 and seconds % 60 == 0:
        return f"*/{seconds // 60} * * * *"
    if 3_600 <= seconds < 86_400 and 86_400 % seconds == 0 and seconds % 3_600 == 0:
        return f"0 */{seconds // 3_600} * * *"
    if seconds == 86_400:
        return "0 0 * * *"
    raise NotImportable(
        _("Every %(every)s %(period)s is no part of a minute, an hour or a day, which cron needs.")
        % {"every": interval.every, "period": interval.period}
    )


def _json(text: str, kind: type[Any]) -> Any:
    try:
        value = json.loads(text or "null")
    except (ValueError, RecursionError):
        value = text
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise NotImportable(_("Its arguments are not JSON."))
    return value


def _name(row: PeriodicTask, names: dict[str, dict[str, Any]]) -> str:
    name = _ODD.sub("-", row.name).strip("-_.:")[:50] or f"schedule-{row.pk}"
    while name in names:
        name = f"{name}-{row.pk}"
    return name
