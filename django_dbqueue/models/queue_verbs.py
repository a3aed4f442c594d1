"""``Queue.objects``: pause a queue, for good or until an end, and resume it."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.db import models
from django.db.models import BooleanField, ExpressionWrapper, Q

from django_dbqueue import conf
from django_dbqueue.envelope import check_moment, check_queue, check_seconds
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.lifecycle.enqueue import notify
from django_dbqueue.models.fields import DbLater, DbNow, clock
from django_dbqueue.sessions.django_session import session_for
from django_dbqueue.statements.events_sql import storable

HOLDS: Final = Q(pause_set=True) & (Q(paused_until=None) | Q(paused_until__gt=DbNow()))
"""A pause holds: it was set, nobody has resumed the queue, and its end, if it has one, is still to come."""


class QueueQuerySet(models.QuerySet[Any]):
    """``Queue.objects``: pause and resume."""

    def pause(
        self,
        name: str,
        *,
        until: datetime | None = None,
        for_: float | timedelta | None = None,
        by: str = "",
        reason: str = "",
    ) -> None:
        """Stop all claims from this queue; what runs may finish. A pause before this one, and its end, are replaced.

        ``until`` (aware datetime) or ``for_`` (seconds or timedelta) set an end, after which claims continue
        automatically, by the database's clock; with neither, the queue stays paused until it is resumed. InvalidMessage
        if both are given, or if the end has passed; then nothing is written.
        """
        self._set(
            name,
            pause_set=True,
            paused_at=DbNow(),
            paused_until=self._end(until, for_),
            paused_by=self._fitting("paused_by", by),
            pause_reason=self._fitting("pause_reason", reason),
        )

    async def apause(self, name: str, **options: Any) -> None:
        """Run ``pause`` from async code."""
        await sync_to_async(self.pause)(name, **options)

    def resume(self, name: str) -> None:
        """Open the queue again, whatever end its pause has."""
        self._set(name, pause_set=False, paused_at=None, paused_until=None, paused_by="", pause_reason="")
        notify(session_for(self.model, self.db), name, 1)

    async def aresume(self, name: str) -> None:
        """Run ``resume`` from async code."""
        await sync_to_async(self.resume)(name)

    def _set(self, name: str, **values: object) -> None:
        change = partial(self.update_or_create, name=check_queue(name), defaults=values)
        session_for(self.model, self.db).outermost(change)  # on MySQL, two who insert the row at once may deadlock

    def _end(self, until: datetime | None, for_: float | timedelta | None) -> datetime | DbLater | None:
        if until is not None and for_ is not None:
            raise InvalidMessage("Give until or for_, not both: each says when the pause ends.")
        if for_ is not None:
            seconds = check_seconds("for_", for_)
            if not seconds:
                raise InvalidMessage("for_ must be more than 0 seconds: the pause would be over at once.")
            return DbLater(seconds)
        if until is None:
            return None
        end, now = check_moment(conf.aware(until), name="until"), clock(self.db)
        if end <= now:
            raise InvalidMessage(
                f"until is {end:%Y-%m-%d %H:%M:%S} UTC, which has passed: it is {now:%Y-%m-%d %H:%M:%S} UTC by the "
                "database's clock. Give a later end, or none."
            )
        return end

    def _fitting(self, field: str, text: str) -> str:
        """Return the text, which is for people, cut to the column and without what some databases refuse."""
        return storable(text, self.model._meta.get_field(field).max_length) or ""

    def paused_names(self) -> set[str]:
        """Return the names of the queues that are paused now."""
        return set(self.filter(is_paused=True).values_list("name", flat=True))


_QueueManager = models.Manager.from_queryset(QueueQuerySet)


class QueueManager(_QueueManager[Any]):
    """``Queue.objects``: each row comes with ``is_paused``, by the database's clock; filters may use it, too."""

    _hints: dict[str, models.Model]

    def get_queryset(self) -> QueueQuerySet:
        """Return queues from the database of their messages."""
        using = session_for(self.model, self._db).using
        rows = QueueQuerySet(self.model, using=using, hints=self._hints)
        shown: QueueQuerySet = rows.annotate(is_paused=ExpressionWrapper(HOLDS, output_field=BooleanField()))
        return shown
