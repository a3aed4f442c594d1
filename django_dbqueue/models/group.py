"""Groups: what an operator set for one, who waits in its line, and who has its tickets (``lanes``)."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue.envelope import WHOLE_QUEUE, check_group, check_queue, check_whole
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.keys import lane_of
from django_dbqueue.lanes.lane_moves import hurry, kick_after_commit, park_after_commit
from django_dbqueue.models.aliases import OwnDatabaseManager, OwnDatabaseModel
from django_dbqueue.models.fields import AsciiField, DbNow, KeyField, UTCDateTimeField
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.settable.option_table import WIDEST
from django_dbqueue.settable.rates import WrongRate, interval_of
from django_dbqueue.statements.events_sql import storable


class Line(OwnDatabaseModel):
    """A message that waits in its group's lane for a ticket; the lowest id is the first."""

    pk = models.CompositePrimaryKey("lane", "message_id")
    lane = models.BigIntegerField()
    message_id = models.BigIntegerField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"#{self.message_id} in {self.lane}"


class Ticket(OwnDatabaseModel):
    """A ticket of a lane, and the message that may run by it."""

    pk = models.CompositePrimaryKey("lane", "ticket")
    lane = models.BigIntegerField()
    ticket = models.PositiveSmallIntegerField()
    message_id = models.BigIntegerField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.ticket} of {self.lane}: #{self.message_id}"


class GroupManager(OwnDatabaseManager["Group"]):
    """Groups, named by their queue and their name; ``"*"`` is the group of a queue that is one as a whole."""

    def limit(self, queue: str, group: str, width: int | None, *, using: str | None = None) -> None:
        """Let up to ``width`` messages of this group run at once; None: as many as its queue's ``group_limit`` says.

        A higher limit takes effect at once. While more run than a lower one allows, their number only falls; but some
        that end may be followed by others until the rest has ended. It joins the caller's transaction.
        """
        wanted = None if width is None else check_whole("width", width, low=1, high=WIDEST)
        self._set(queue, group, using, width=wanted)

    def rate(self, queue: str, group: str, rate: str | None, *, using: str | None = None) -> None:
        """Let that many messages of this group start, such as "10/s", "100/m" or "5000/h"; None: as its queue says.

        It joins the caller's transaction. What workers have not claimed yet starts by it.
        """
        try:
            _ = None if rate is None else interval_of(rate)
        except WrongRate as error:
            raise InvalidMessage(f"rate must be {error}, or None, not {rate!r}.") from None
        lane, session = self._set(queue, group, using, rate=rate, scheduled=None)
        hurry(session, lane)

    def pause(self, queue: str, group: str, *, reason: str = "", by: str = "", using: str | None = None) -> None:
        """Let no further message of this group begin. What is running continues."""
        lane, session = self._set(
            queue, group, using, is_paused=True, paused_at=DbNow(),
            paused_by=storable(by, 150) or "", pause_reason=storable(reason, 500) or "",
        )  # fmt: skip
        park_after_commit(session, lane, queue)

    def resume(self, queue: str, group: str, *, using: str | None = None) -> None:
        """Let the messages of a paused group begin again."""
        self._set(queue, group, using, is_paused=False, paused_at=None, paused_by="", pause_reason="")

    def order(self, queue: str, group: str, *, limit: int = 100, using: str | None = None) -> list[int]:
        """Return the ids of the first messages that wait for this group's turn, in the order in which they will run."""
        lane = _lane(queue, group)
        check_whole("limit", limit, low=1, high=10_000)
        rows = Line.objects.using(self._session(using).using).filter(lane=lane).order_by("lane", "message_id")
        return list(rows.values_list("message_id", flat=True)[:limit])

    def _set(self, queue: str, group: str, using: str | None, **values: object) -> tuple[int, DjangoSession]:
        lane, session = _lane(queue, group), self._session(using)
        named = {**values, "queue": queue, "name": group}
        rows = self.using(session.using)
        # on MySQL, two who insert the row of a group at once may be in each other's way: a deadlock
        session.outermost(partial(rows.update_or_create, lane=lane, defaults=values, create_defaults=named))
        kick_after_commit(session, {lane: queue})
        return lane, session


def _lane(queue: str, group: str) -> int:
    return lane_of(check_queue(queue), group if group == WHOLE_QUEUE else check_group(group))


class Group(models.Model):
    """A group that has something of its own: a limit, a pause, the times of a rate. The others have no row.

    ``scheduled`` and ``started``: the last start by the schedule, and the last one that was reserved, in microseconds
    since 1970 by the database's clock.
    """

    lane = models.BigIntegerField(primary_key=True)
    queue = AsciiField(_("queue"), max_length=64)
    name = KeyField(_("group"), max_length=200)
    width = models.PositiveIntegerField(_("limit"), null=True, blank=True)
    rate = AsciiField(_("rate"), max_length=16, null=True, blank=True)
    has_own = models.GeneratedField(
        expression=models.ExpressionWrapper(
            models.Q(width__isnull=False) | models.Q(rate__isnull=False), output_field=models.BooleanField()
        ),
        output_field=models.BooleanField(),
        db_persist=True,
    )
    """Whether it has a limit or a rate of its own: where a queue has a rate, each of its groups has a row."""
    scheduled = models.BigIntegerField(null=True, editable=False)
    started = models.BigIntegerField(null=True, editable=False)
    is_paused = models.BooleanField(_("paused"), default=False, db_default=False)
    paused_at = UTCDateTimeField(_("paused at"), null=True, blank=True)
    paused_by = KeyField(_("paused by"), max_length=150, blank=True, default="", db_default="")
    pause_reason = KeyField(_("reason"), max_length=500, blank=True, default="", db_default="")

    objects: ClassVar[GroupManager] = GroupManager()

    class Meta:
        verbose_name = _("group")
        verbose_name_plural = _("groups")
        default_permissions = ("view",)
        indexes = (
            models.Index(fields=("is_paused", "lane"), name="dbqueue_group_paused"),
            models.Index(fields=("has_own", "lane"), name="dbqueue_group_own"),
            models.Index(fields=("queue", "rate"), name="dbqueue_group_rate"),
        )
        permissions = (("change_group_limit", _("Can change the limits of groups")),)

    def __str__(self) -> str:
        return f"{self.queue} {self.name}"
