"""What an operator does to all messages that match, in steps in the background.

Each step is a message of the queue that ``DBQUEUE["OPERATIONS_QUEUE"]`` names, and one transaction: what it moves, the
operation's progress, the next step's message and the ack of its own. So a step that is delivered again, or held by two
workers, is done once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from django.db import IntegrityError, models
from django.utils.translation import gettext_lazy as _

from django_dbqueue import conf
from django_dbqueue.models.aliases import OwnDatabaseManager
from django_dbqueue.models.fields import AsciiField, DbNow, ExactTextField, KeyField, UTCDateTimeField
from django_dbqueue.models.message import Message
from django_dbqueue.operations import bulk, mover
from django_dbqueue.operations.verbs import VERBS
from django_dbqueue.sessions.django_session import session_of

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

IN_PROGRESS: Final = "running"
COMPLETED: Final = "done"
STOPPED: Final = "stopped"
REFUSED: Final = "refused"
"""The person who started it has lost the permission, so it was stopped."""
FAILED: Final = "failed"


class BulkOperationManager(OwnDatabaseManager["BulkOperation"]):
    """``BulkOperation.objects``."""

    def order(
        self,
        verb: str,
        selection: bulk.Selection,
        *,
        expected: int,
        reason: str,
        user: AbstractBaseUser,
        ticket: str,
        target: str = "",
        using: str | None = None,
    ) -> BulkOperation | None:
        """Store an operation together with the message of its first step; the caller has checked permissions.

        ``target`` is the queue into which messages are moved, if the verb asks for one. ``expected`` is how many
        messages matched, or ``bulk.COUNTED`` plus one if they were not counted. Return None, with nothing written, if
        an operation with this ticket exists already.
        """
        session = self._session(using)

        def write() -> BulkOperation:
            with session.transaction():
                operation = self.using(session.using).create(
                    ticket=ticket,
                    verb=verb,
                    selection=str(selection),
                    last_id=selection.last_id,
                    expected=expected,
                    state=IN_PROGRESS,
                    reason=reason,
                    target=target,
                    user_id=str(user.pk),
                    ordered_by=user.get_username()[:255],
                )
                operation._send_step(session.using)
                operation.save(using=session.using, update_fields=["message_id"])
            return operation

        try:
            return session.outermost(write)
        except IntegrityError:
            if self.using(session.using).filter(ticket=ticket).exists():
                return None
            raise

    def locked(self, pk: int | str, *, using: str) -> BulkOperation | None:
        """Return an operation, locked against others until this transaction ends; None if there is none."""
        return self.using(using).select_for_update().filter(pk=pk).first()


class BulkOperation(models.Model):
    """One verb for all messages of a selection that existed when it was ordered, and its progress."""

    id = models.BigAutoField(primary_key=True)
    ticket = AsciiField(max_length=32, unique=True, editable=False)
    """Carried by the page that it was ordered from: a page orders only once."""
    verb = AsciiField(_("verb"), max_length=16)
    selection = ExactTextField(_("selection"))
    """JSON, as ``bulk.Selection`` reads it."""
    last_id = models.BigIntegerField(_("last message"))
    """The highest message id when it was ordered: later ones are not touched."""
    expected = models.BigIntegerField(_("expected"))
    cursor = ExactTextField(_("cursor"), default="")
    steps = models.BigIntegerField(_("steps"), default=0, db_default=0)
    message_id = models.BigIntegerField(_("message of the next step"), null=True)
    moved = models.BigIntegerField(_("moved"), default=0, db_default=0)
    left_alone = models.BigIntegerField(_("left alone"), default=0, db_default=0)
    state = AsciiField(_("state"), max_length=8)
    reason = ExactTextField(_("reason"), default="")
    target = AsciiField(_("queue to move to"), max_length=64, default="", db_default="")
    user_id = KeyField(_("user"), max_length=255)
    ordered_by = KeyField(_("ordered by"), max_length=255)
    ordered_at = UTCDateTimeField(_("ordered at"), db_default=DbNow())
    ended_at = UTCDateTimeField(_("ended at"), null=True)
    error = ExactTextField(_("error"), null=True)

    objects: ClassVar[BulkOperationManager] = BulkOperationManager()

    class Meta:
        verbose_name = _("bulk operation")
        verbose_name_plural = _("bulk operations")
        default_permissions = ("view",)
        permissions = (("stop_bulkoperation", _("Can stop bulk operations")),)

    def __str__(self) -> str:
        return f"{self.verb} #{self.pk}"

    @property
    def chosen(self) -> bulk.Selection:
        """Return which messages it is for."""
        return bulk.Selection.parse(self.selection)

    def take_step(self) -> None:
        """Move the next messages; send the next step, or end. Requires a transaction that has locked the row."""
        using = self._state.db or ""
        order = VERBS[self.verb].ordered(self.ordered_by, self.reason, self.target)
        step = mover.move_page(Message, session_of(using), order, self.chosen, self.cursor)
        self.moved += len(step.moved)
        self.left_alone += len(step.left)
        self.steps += 1
        if step.cursor is None:
            self.end(COMPLETED)
            return
        self.cursor = step.cursor
        self._send_step(using)
        self.save(using=using, update_fields=["moved", "left_alone", "steps", "cursor", "message_id"])

    def end(self, state: str, *, error: str | None = None) -> None:
        """End it: no step follows. Requires a transaction that has locked the row."""
        self.state, self.error, self.message_id = state, error, None
        self.ended_at = DbNow()
        self.save(update_fields=["state", "error", "message_id", "ended_at", "moved", "left_alone", "steps"])
        self.refresh_from_db(fields=["ended_at"])

    def _send_step(self, using: str) -> None:
        queue, key = conf.get("OPERATIONS_QUEUE"), f"{self.pk}/{self.steps + 1}"
        step = Message.objects.enqueue({"operation": self.pk}, queue=queue, key=key, on_conflict="error", using=using)
        self.message_id = step.pk
