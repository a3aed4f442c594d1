"""Where each schedule stands: it fires once per due time, however many workers check it and however fast they are.

A due time belongs to the worker that moves ``last_due`` on from the value it read (compare and set), and the messages
are inserted in the same transaction: both or neither. A message's key could not ensure this: it is free again once its
message is done.

What an operator changes raises the row's ``revision``, so a worker that has read the row before sends nothing by it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django.db import IntegrityError, models
from django.utils.translation import gettext_lazy as _

from django_dbqueue.codecs import JSON, Json, decode_json, encode
from django_dbqueue.exceptions import InvalidSchedule, UndecodableMessage
from django_dbqueue.keys import MAX_KEY_LENGTH
from django_dbqueue.lifecycle.left_behind import LeftBehind
from django_dbqueue.models.fields import AsciiField, DbNow, ExactTextField, KeyField, UTCDateTimeField
from django_dbqueue.models.schedule_verbs import ScheduleVerbs, enqueue_due
from django_dbqueue.schedules.declarations import Plan, read
from django_dbqueue.sessions.apart import apart
from django_dbqueue.sessions.django_session import session_for, session_of

SEEN_EVERY: Final = timedelta(seconds=60)
"""How often the workers that declare a schedule record that in its row."""
ABANDONED_AFTER: Final = timedelta(seconds=180)
"""A declaration that nobody has repeated for this long is no longer binding."""
TOLERANCE: Final = timedelta(seconds=60)
"""A row further ahead of the server's clock than this was written before or while that clock was wrong."""
KEPT: Final = timedelta(days=30)
"""How long the row of a schedule is kept after its last declaration."""


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    """The verbs of the workers that run schedules."""

    def by_name(self, plans: Iterable[Plan], *, and_added: bool = False) -> dict[str, ScheduleNow]:
        """Return the rows of these schedules by name, each with the database's clock in ``db_now``.

        ``and_added``: those that operators have added too.
        """
        wanted = models.Q(name__in=[plan.name for plan in plans])
        rows: models.QuerySet[Any] = self.filter(wanted | models.Q(is_added=True) if and_added else wanted)
        return {row.name: row for row in rows.annotate(db_now=DbNow(output_field=UTCDateTimeField()))}

    def begin(self, plan: Plan, *, declared_at: datetime) -> None:
        """Add a schedule that begins now; do nothing if another worker was faster."""
        row, session = Schedule(name=plan.name, declared_at=declared_at, **definition(plan)), session_of(self.db)

        def add() -> None:
            with session.transaction():
                row.save(using=self.db, force_insert=True)

        try:
            session.outermost(add)
        except IntegrityError:
            if not self.filter(pk=plan.name).exists():
                raise

    def redeclare(self, plan: Plan, row: ScheduleNow, *, declared_at: datetime) -> bool:
        """Let a definition take the place of another one, or of an added schedule; False if another worker has the row.

        It continues from where that was if it is due at the same times, else from now.
        """
        since: dict[str, object] = {} if is_due_at_the_same_times(plan, row) else {"last_due": DbNow()}
        gone = {"is_added": False, "missed": "latest", "key": None, "revision": models.F("revision") + 1}
        return self._move(
            row, {"declared_at": declared_at, **since, **(gone if row.is_added else {}), **definition(plan)}
        )

    def confirm(self, row: ScheduleNow, *, declared_at: datetime) -> None:
        """Record, once a minute among all workers, that it is still declared."""
        since = row.declared_at if row.declared_at - row.db_now <= TOLERANCE else declared_at
        if row.declared_at != max(since, declared_at) or row.was_seen_long_ago(SEEN_EVERY):
            self._move(row, {"declared_at": max(since, declared_at)})

    def fire(self, plan: Plan, row: ScheduleNow, *, times: list[datetime], upto: datetime) -> bool:
        """Enqueue one message for each of these due times and move on, in one transaction; False if another did."""

        def send() -> None:
            for due in times:
                message = enqueue_due(plan, due, using=self.db)
                self.filter(pk=plan.name).update(last_message_id=message.pk)

        return self._move(row, {"last_due": upto}, and_then=send)

    def _move(
        self, row: ScheduleNow, changes: dict[str, object], *, and_then: Callable[[], None] | None = None
    ) -> bool:
        """Change a row that is as it was read; return False if it isn't, or somebody has it locked.

        Nothing waits for the row: a worker that hangs midway must not hang the others with it.
        """
        columns = ("cron", "timezone", "last_due", "declared_at", "seen_at", "revision")
        read = {name: getattr(row, name) for name in columns}
        as_read = self.filter(pk=row.pk, **read)
        session = session_of(self.db)

        def move() -> bool:
            with session.transaction():
                if not as_read.select_for_update(skip_locked=True).values_list("pk"):
                    return False
                as_read.update(seen_at=DbNow(), **changes)
                if and_then is not None:
                    and_then()
                return True

        return session.outermost(move)

    def beyond_clock(self) -> models.QuerySet[Schedule]:
        """Select schedules that fire nothing before a time far ahead: the server's clock was wrong when they did."""
        return self.filter(last_due__gt=DbNow() + TOLERANCE).order_by("pk")

    def set_back(self) -> list[Schedule]:
        """Let those schedules continue from now, and return them as they were.

        What they enqueued ahead of its time will be enqueued again at its time.
        """
        return [
            row
            for row in self.beyond_clock()
            if self.filter(pk=row.pk, last_due=row.last_due).update(last_due=DbNow(), seen_at=DbNow())
        ]

    def forget(self, left: LeftBehind | None = None) -> None:
        """Delete the rows of schedules that nobody has declared for a month. Added ones stay until they are removed."""
        abandoned = self.filter(seen_at__lt=DbNow() - KEPT, is_added=False)
        left = left or LeftBehind("Schedule")
        names = left.unmet(abandoned.values_list("pk", flat=True))
        # by name: a DELETE that scans waits for every row
        alone = session_of(self.db).outermost
        apart(names, lambda some: alone(partial(abandoned.filter(pk__in=some)._raw_delete, self.db)), left.refused)


def definition(plan: Plan) -> dict[str, str]:
    """Return what the row of a declared schedule has of it, by which two versions of it are told apart."""
    text, content_type, types = encode(plan.payload, max_bytes=sys.maxsize)
    rest = repr((text, content_type, types, plan.key, plan.missed))
    return {
        "queue": plan.queue,
        "cron": plan.cron.expression,
        "timezone": plan.cron.timezone,
        "body": sha256(rest.encode()).hexdigest(),
    }


def is_due_at_the_same_times(plan: Plan, row: Schedule) -> bool:
    """Return whether a row's schedule is due when the plan is."""
    return (row.cron, row.timezone) == (plan.cron.expression, plan.cron.timezone)


_ScheduleManager = models.Manager.from_queryset(ScheduleQuerySet)


class ScheduleManager(ScheduleVerbs["Schedule"], _ScheduleManager["Schedule"]):
    """``Schedule.objects``."""

    _hints: dict[str, models.Model]

    def get_queryset(self) -> ScheduleQuerySet:
        """Return schedules from the database of their messages."""
        return ScheduleQuerySet(self.model, using=session_for(self.model, self._db).using, hints=self._hints)


class Schedule(models.Model):
    """The progress of a schedule from the settings or a consumer; or all of one that an operator has added.

    The row of a declared one fires nothing by itself. Only added ones have ``missed``, ``body`` (the payload, JSON) and
    ``key`` here; the ``body`` of a declared one is a hash of the three. ``revision`` counts what operators have done to
    it.
    """

    name = AsciiField(_("name"), max_length=64, primary_key=True)
    queue = AsciiField(_("queue"), max_length=64)
    cron = AsciiField(_("cron expression"), max_length=200)
    timezone = AsciiField(_("time zone"), max_length=64)
    last_due = UTCDateTimeField(_("last due"), db_default=DbNow())
    last_message_id = models.BigIntegerField(_("last message"), null=True)
    declared_at = UTCDateTimeField(_("declared at"))
    seen_at = UTCDateTimeField(_("last declared"), db_default=DbNow())
    is_added = models.BooleanField(_("added by an operator"), default=False, db_default=False)
    missed = AsciiField(_("missed due times"), max_length=8, default="latest", db_default="latest")
    body = ExactTextField(_("payload"), null=True, blank=True)
    key = KeyField(_("key"), max_length=MAX_KEY_LENGTH, null=True, blank=True)
    disabled_at = UTCDateTimeField(_("disabled at"), null=True, blank=True)
    disabled_by = KeyField(_("disabled by"), max_length=150, blank=True, default="", db_default="")
    disabled_reason = KeyField(_("reason"), max_length=500, blank=True, default="", db_default="")
    revision = models.PositiveIntegerField(default=0, db_default=0, editable=False)

    content_type: ClassVar = JSON
    headers_text: ClassVar = None  # these two, queue and body: what redaction reads of a message

    objects: ClassVar[ScheduleManager] = ScheduleManager()

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        default_permissions = ("view", "add", "change", "delete")
        permissions = (
            ("disable_schedule", _("Can disable and enable schedules")),
            ("run_schedule", _("Can run schedules now")),
        )

    def __str__(self) -> str:
        return str(self.name)

    @property
    def is_disabled(self) -> bool:
        """Whether an operator has disabled it."""
        return self.disabled_at is not None

    @property
    def payload(self) -> Json:
        """The payload of an added one; UndecodableMessage if the row holds no JSON."""
        return decode_json("{}" if self.body is None else self.body)

    def plan(self) -> Plan:
        """Return what an added one enqueues; InvalidSchedule if the row holds what can't be, as written by SQL."""
        options = {name: getattr(self, name) for name in ("queue", "cron", "timezone", "missed", "key")}
        try:
            return read(self.name, {**options, "payload": self.payload})
        except UndecodableMessage as error:
            raise InvalidSchedule(str(error)) from error

    def was_seen_long_ago(self, age: timedelta) -> bool:
        """Return whether no worker has declared it for ``age``, by ``db_now``; a time far ahead counts as none."""
        seen: datetime = self.seen_at
        now: datetime = self.db_now  # type: ignore[attr-defined]  # as ``by_name()`` reads it
        return not -TOLERANCE < now - seen < age


if TYPE_CHECKING:

    class ScheduleNow(Schedule):
        """A schedule, with the database's clock when it was read."""

        db_now: datetime
