"""What ``queue_pause`` and ``queue_resume`` share: checking names, and reporting a pause, and who was first."""

from __future__ import annotations

from abc import abstractmethod
from argparse import ArgumentParser
from functools import partial
from typing import ClassVar, Final

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from django_dbqueue import signals
from django_dbqueue.envelope import check_queue
from django_dbqueue.insight.groups import group_at, group_of
from django_dbqueue.insight.overview import known_queues, until
from django_dbqueue.management.common_options import Options
from django_dbqueue.management.console import (
    EXIT_NOTHING,
    EXIT_USAGE,
    LONGEST_NAME,
    ConsoleCommand,
    add_by,
    iso,
    operator,
    plain,
    refuse_unknown,
)
from django_dbqueue.models import Group, Message, Queue
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements.events_sql import storable

LONGEST_REASON: Final = 500
"""Characters of the reason, as ``Queue.pause_reason`` keeps it."""


class PausingCommand(ConsoleCommand):
    """Switch queues, each in a transaction of its own; one in that state already is left alone, and reported.

    Exit codes: 0 each queue is in the requested state; 1 the database can't be read; 2 wrong options; 3 there is no
    such queue, and none was switched.
    """

    verb: ClassVar[str]
    pauses: ClassVar[bool]

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("queues", nargs="+", metavar="queue", help="the queues' names")
        parser.add_argument("--group", metavar="G", help="only this group of the queue")
        add_by(parser)

    def declared(self, options: Options) -> set[str]:  # noqa: ARG002 - queue_pause looks at it
        """Return names that are valid although the database doesn't know them."""
        return set()

    @abstractmethod
    def switch(self, session: DjangoSession, name: str, *, by: str, reason: str) -> None:
        """Apply it to a queue in the other state."""

    def is_as_wanted(self, row: Queue) -> bool:
        """Return whether there is nothing to apply to this queue."""
        return row.is_paused == self.pauses

    @abstractmethod
    def switch_group(self, session: DjangoSession, group: Group, *, by: str, reason: str) -> None:
        """Apply it to a group in the other state."""

    def act(self, session: DjangoSession, options: Options) -> None:
        by = storable(operator(options["by"]), LONGEST_NAME) or ""  # a terminal may use an encoding other than UTF-8
        reason = storable(options.get("reason"), LONGEST_REASON) or ""
        names = [check_queue(name) for name in dict.fromkeys(options["queues"])]
        refuse_unknown(names, {*self.declared(options), *known_queues(session)})
        if options["group"] is not None:
            self._act_on_group(session, options, names, by=by, reason=reason)
            return
        documents = []
        for name in names:
            change = partial(self._switch, session, name, by=by, reason=reason)
            changed, row, before = session.outermost(change)
            if changed:
                signals.operator_acted.send(Message, verb=self.verb, queue=name, by=by, reason=reason, count=0)
            documents.append(_document(row, changed=changed))
            if not options["json"]:
                self.stdout.write(_sentence(row, before, changed=changed))
        if options["json"]:
            self.write({"verb": self.verb, "queues": documents}, as_json=True, text="")

    def _switch(self, session: DjangoSession, name: str, *, by: str, reason: str) -> tuple[bool, Queue, Queue | None]:
        """Return whether it was changed, the queue as it is now, and the pause that was replaced."""
        rows = Queue.objects.using(session.using)
        if self.pauses:
            rows.get_or_create(name=name)  # so that two first pauses at once have a row to lock
        with session.transaction():
            row = rows.select_for_update().filter(pk=name).first()
            if row is None or self.is_as_wanted(row):
                return False, row or Queue(name=name), None
            self.switch(session, name, by=by, reason=reason)
        return True, rows.get(pk=name), row if row.is_paused and self.pauses else None

    # -- one group ----------------------------------------------------------------------------------------

    def _act_on_group(
        self, session: DjangoSession, options: Options, names: list[str], *, by: str, reason: str
    ) -> None:
        if len(names) > 1:
            raise CommandError(_("--group names a group of one queue: name only that queue."), returncode=EXIT_USAGE)
        wanted = group_of(session, names[0], options["group"])
        if group_at(session, wanted.lane) is None and not options.get("create"):
            text = _(
                "Queue %(queue)r has no group %(group)r with messages that wait or run, or a limit, a rate or a pause."
            )
            raise CommandError(text % {"queue": names[0], "group": options["group"]}, returncode=EXIT_NOTHING)
        change = partial(self._switch_group, session, wanted, by=by, reason=reason)
        changed, row = session.outermost(change)
        if changed:
            signals.operator_acted.send(
                Message, verb=self.verb, queue=names[0], group=row.name, by=by, reason=reason, count=0
            )
        document = {"queue": row.queue, "group": row.name, "changed": changed, **document_of_pause(row)}
        self.write(
            {"verb": self.verb, **document}, as_json=options["json"], text=_sentence_of_group(row, changed=changed)
        )

    def _switch_group(self, session: DjangoSession, wanted: Group, *, by: str, reason: str) -> tuple[bool, Group]:
        rows = Group.objects.using(session.using)
        if self.pauses:  # so that two first pauses at once have a row to lock
            rows.get_or_create(lane=wanted.lane, defaults={"queue": wanted.queue, "name": wanted.name})
        with session.transaction():
            row = rows.select_for_update().filter(pk=wanted.lane).first()
            if row is None or row.is_paused == self.pauses:
                return False, row or wanted
            self.switch_group(session, row, by=by, reason=reason)
        return True, rows.get(pk=wanted.lane)


def _document(row: Queue, *, changed: bool) -> dict[str, object]:
    return {"queue": row.name, "changed": changed, **document_of_pause(row)}


def _sentence(row: Queue, before: Queue | None, *, changed: bool) -> str:
    if not row.is_paused:
        text = _("Queue %(queue)s is open again.") if changed else _("Queue %(queue)s is already open.")
    elif not changed and row.paused_until is None:
        text = _("Queue %(queue)s is already paused, by %(by)s since %(at)s: %(reason)s")
    elif not changed:
        text = _("Queue %(queue)s is already paused %(end)s, by %(by)s since %(at)s: %(reason)s")
    elif row.paused_until is None and before is None:
        text = _("Queue %(queue)s is paused: %(reason)s")
    else:
        text = _("Queue %(queue)s is paused %(end)s: %(reason)s")
    sentence = text % _words_of(row)
    if before is not None:
        replaced = _("This replaces its pause %(end)s, by %(by)s since %(at)s: %(reason)s") % _words_of(before)
        sentence = f"{sentence}\n  {replaced}"
    return sentence


def _words_of(row: Queue) -> dict[str, object]:
    who, reason = plain(row.paused_by), plain(row.pause_reason)
    end = until(row.paused_until)
    return {"queue": row.name, "end": end, "by": who, "at": iso(row.paused_at), "reason": reason}


def _sentence_of_group(row: Group, *, changed: bool) -> str:
    words = {"queue": row.queue, "group": plain(row.name), "by": plain(row.paused_by)}
    words |= {"at": iso(row.paused_at) or "?", "reason": plain(row.pause_reason)}
    if changed and row.is_paused:
        text = _("Group %(group)s of queue %(queue)s is paused: %(reason)s")
    elif changed:
        text = _("Group %(group)s of queue %(queue)s is open again.")
    elif row.is_paused:
        text = _("Group %(group)s of queue %(queue)s is already paused, by %(by)s since %(at)s: %(reason)s")
    else:
        text = _("Group %(group)s of queue %(queue)s is already open.")
    return text % words


def document_of_pause(row: Queue | Group) -> dict[str, object]:
    """Return for programs whether a pause holds, and what it is; nothing of one that has ended."""
    holds = row.is_paused
    ends = {"paused_until": iso(row.paused_until) if holds else None} if isinstance(row, Queue) else {}
    return {
        "paused": holds,
        "paused_at": iso(row.paused_at) if holds else None,
        **ends,
        "paused_by": row.paused_by if holds else "",
        "pause_reason": row.pause_reason if holds else "",
    }
