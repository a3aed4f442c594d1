"""What operators do to schedules, on the manager: add, change and remove those of their own; disable, run now.

Each of them joins the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final, Generic, Protocol, TypeVar

from django.db import IntegrityError, models

from django_dbqueue import conf
from django_dbqueue.codecs import Json, encode_json
from django_dbqueue.exceptions import InvalidMessage, InvalidSchedule
from django_dbqueue.lifecycle.enqueue import notify
from django_dbqueue.models.fields import DbNow, clock
from django_dbqueue.models.message import Message
from django_dbqueue.schedules import declarations
from django_dbqueue.schedules.declarations import Missed, Plan
from django_dbqueue.sessions.django_session import DjangoSession, session_for
from django_dbqueue.statements.events_sql import storable

MOST_ADDED: Final = 1_000
"""Schedules that operators can add: every worker reads all of them."""
_NOTHING: Final[dict[str, Json]] = {}


class HasPlan(Protocol):
    """A schedule's row, as far as operators act on it."""

    cron: str
    timezone: str
    last_due: datetime
    is_added: bool
    revision: int

    @property
    def is_disabled(self) -> bool:
        """Whether an operator has disabled it."""

    def plan(self) -> Plan:
        """Return what an added one enqueues."""


AnySchedule = TypeVar("AnySchedule", bound=HasPlan)


class ScheduleVerbs(Generic[AnySchedule]):
    """The verbs of ``Schedule.objects``. Each takes ``using``, the alias of a database."""

    model: type[Any]
    _db: str | None

    def add(
        self,
        name: str,
        *,
        queue: str,
        cron: str,
        timezone: str | None = None,
        missed: Missed = "latest",
        payload: Json = _NOTHING,
        key: str | None = None,
        using: str | None = None,
    ) -> AnySchedule:
        """Add a schedule that begins now, with the options of ``DBQUEUE["SCHEDULES"]``; the payload must be JSON.

        Workers pick it up within a second or two. InvalidSchedule says what can't be, and why; SchedulesNotInstalled
        that cronsim is missing.
        """
        session = self._session(using)
        plan = _read(name, queue=queue, cron=cron, timezone=timezone, missed=missed, payload=payload, key=key)
        if plan.name in conf.get("SCHEDULES"):
            raise InvalidSchedule(f"{conf.NAME}['SCHEDULES'] has a schedule {plan.name!r}: choose another name.")
        rows = self._rows(session)
        row = self.model(name=plan.name, declared_at=clock(session.using), is_added=True, **_columns(plan))

        def insert() -> None:
            with session.transaction():
                if rows.filter(is_added=True).count() >= MOST_ADDED:
                    raise InvalidSchedule(
                        f"There are {MOST_ADDED:,} added schedules already, which is the limit: remove some, or let "
                        "one schedule's consumer send many messages."
                    )
                row.save(using=session.using, force_insert=True)
                notify(session, plan.queue, 1)  # workers that rest are to see it soon

        try:
            session.outermost(insert)
        except IntegrityError as error:
            if not rows.filter(pk=plan.name).exists():
                raise
            raise InvalidSchedule(f"There is already a schedule {plan.name!r}: choose another name.") from error
        added: AnySchedule = rows.get(pk=plan.name)
        return added

    def change(
        self,
        name: str,
        *,
        queue: str,
        cron: str,
        timezone: str | None = None,
        missed: Missed = "latest",
        payload: Json = _NOTHING,
        key: str | None = None,
        revision: int | None = None,
        using: str | None = None,
    ) -> AnySchedule:
        """Give an added schedule other options, all of them. At other times of day, it starts over from now.

        Once this is committed, nothing is enqueued by the old ones. ``revision``: only if it still has this one;
        InvalidSchedule if not.
        """
        plan = _read(name, queue=queue, cron=cron, timezone=timezone, missed=missed, payload=payload, key=key)

        def change(row: AnySchedule) -> dict[str, Any]:
            if not row.is_added:
                raise InvalidSchedule(f"The schedule {name!r} is declared in the code: change it there.")
            if revision is not None and row.revision != revision:
                raise InvalidSchedule(f"The schedule {name!r} has changed in the meantime: check it again.")
            is_same = (row.cron, row.timezone) == (plan.cron.expression, plan.cron.timezone)
            return _columns(plan) if is_same else {**_columns(plan), "last_due": DbNow()}

        return self._act(name, using, change)

    def disable(self, name: str, *, reason: str = "", by: str = "", using: str | None = None) -> AnySchedule:
        """Let a schedule, added or declared, enqueue nothing until it is enabled; the times in between are skipped.

        Once this is committed, nothing is enqueued by it.
        """

        def change(row: AnySchedule) -> dict[str, Any]:
            if row.is_disabled:
                return {}
            why = {"disabled_by": storable(by, 150) or "", "disabled_reason": storable(reason, 500) or ""}
            return {"disabled_at": DbNow(), **why}

        return self._act(name, using, change)

    def enable(self, name: str, *, using: str | None = None) -> AnySchedule:
        """Let a disabled schedule continue from now."""
        now = clock(self._session(using).using)

        def change(row: AnySchedule) -> dict[str, Any]:
            if not row.is_disabled:
                return {}
            since = {"last_due": now} if row.last_due < now else {}  # never back, for a time would come twice
            return {"disabled_at": None, "disabled_by": "", "disabled_reason": "", **since}

        return self._act(name, using, change)

    def remove(self, name: str, *, using: str | None = None) -> None:
        """Delete an added schedule. Once this is committed, nothing is enqueued by it."""
        session = self._session(using)
        if not self._rows(session).filter(pk=name, is_added=True).delete()[0]:
            raise self._missing(name, session, "added schedule")

    def run_now(self, name: str, *, by: str = "", plan: Plan | None = None, using: str | None = None) -> Message:
        """Enqueue what a schedule would, now, disabled or not; its due times stay as they are.

        ``plan``: what to enqueue, if a consumer or a task declares the schedule. If a live message has the schedule's
        key, nothing is enqueued; that message is returned, and its ``outcome`` says so. The header ``dbqueue.run_by``
        names the operator.
        """
        session = self._session(using)
        rows = self._rows(session)
        found, now = plan or self._plan_of(name, session), clock(session.using)

        def send() -> Message:
            with session.transaction():
                # In the order in which workers lock; one that hangs midway must not hang whoever is on call
                is_free = bool(rows.select_for_update(skip_locked=True).filter(pk=name).values_list("pk"))
                message = enqueue_due(found, now, using=session.using, run_by=storable(by, 150) or "")
                if is_free:
                    rows.filter(pk=name).update(last_message_id=message.pk)
            return message

        return session.outermost(send)

    def _plan_of(self, name: str, session: DjangoSession) -> Plan:
        row: AnySchedule | None = self._rows(session).filter(pk=name).first()
        if row is not None and row.is_added:
            return row.plan()
        for plan in declarations.of_settings():
            if plan.name == name:
                return plan
        if row is None:
            raise self._missing(name, session, "schedule")
        raise InvalidSchedule(
            f"What the schedule {name!r} enqueues is not known here: a consumer declares it, or a task, or other "
            "settings do."
        )

    def _act(self, name: str, using: str | None, change: Callable[[AnySchedule], dict[str, Any]]) -> AnySchedule:
        """Change a row under its lock; a worker that has read it before then sends nothing by it."""
        session = self._session(using)
        rows = self._rows(session)

        def act() -> None:
            with session.transaction():
                row = rows.select_for_update().filter(pk=name).first()
                if row is None:
                    raise self._missing(name, session, "schedule")
                if changes := change(row):
                    rows.filter(pk=name).update(revision=models.F("revision") + 1, **changes)
                    notify(session, row.queue, 1)

        session.outermost(act)
        changed: AnySchedule = rows.get(pk=name)
        return changed

    def _missing(self, name: str, session: DjangoSession, what: str) -> InvalidSchedule:
        names = self._rows(session).values_list("pk", flat=True)
        near = get_close_matches(str(name)[:100], names, n=1)
        return InvalidSchedule(f"There is no {what} {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}")

    def _session(self, using: str | None) -> DjangoSession:
        return session_for(self.model, using or self._db)

    def _rows(self, session: DjangoSession) -> Any:
        return self.model._default_manager.using(session.using)


def enqueue_due(plan: Plan, due: datetime, *, using: str, run_by: str | None = None) -> Message:
    """Enqueue what a schedule does for one due time, or for somebody who runs it; return the message."""
    envelope = plan.envelope(due, run_by=run_by)
    if plan.enqueue is not None:
        message = Message.objects.using(using).get(pk=plan.enqueue(envelope.headers or {}, using))
        message.outcome = "created"
        return message
    return Message.objects.enqueue(
        envelope.payload, queue=plan.queue, key=envelope.key, headers=envelope.headers, using=using
    )


def _read(name: str, **options: object) -> Plan:
    try:
        encode_json(options["payload"], what="payload", max_bytes=conf.get("MAX_PAYLOAD_BYTES"))
    except InvalidMessage as error:
        raise InvalidSchedule(str(error)) from error
    return declarations.read(name, options)


def _columns(plan: Plan) -> dict[str, Any]:
    return {
        "queue": plan.queue,
        "cron": plan.cron.expression,
        "timezone": plan.cron.timezone,
        "missed": plan.missed,
        "body": encode_json(plan.payload, what="payload", max_bytes=conf.get("MAX_PAYLOAD_BYTES")),
        "key": plan.key,
    }
