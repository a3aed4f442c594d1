"""What ``queue_pause`` and ``queue_resume`` share: checking names, and reporting who was first."""

from __future__ import annotations

from abc import abstractmethod
from argparse import ArgumentParser
from functools import partial
from typing import ClassVar, Final

from django.utils.translation import gettext as _

from django_dbqueue import signals
from django_dbqueue.databases.events_sql import storable
from django_dbqueue.envelope import check_queue
from django_dbqueue.insight.overview import known_queues
from django_dbqueue.lifecycle.django_session import session_of
from django_dbqueue.management.common_options import Options
from django_dbqueue.management.console import (
    LONGEST_NAME,
    ConsoleCommand,
    add_by,
    iso,
    operator,
    plain,
    refuse_unknown,
)
from django_dbqueue.models import Message, Queue

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
        add_by(parser)

    def declared(self, said: Options) -> set[str]:  # noqa: ARG002 - queue_pause looks at it
        """Return names that are valid although the database doesn't know them."""
        return set()

    @abstractmethod
    def switch(self, alias: str, name: str, *, by: str, reason: str) -> None:
        """Apply it to a queue in the other state."""

    def act(self, alias: str, said: Options) -> None:
        by = storable(operator(said["by"]), LONGEST_NAME) or ""  # a terminal may use an encoding other than UTF-8
        reason = storable(said.get("reason"), LONGEST_REASON) or ""
        names = [check_queue(name) for name in dict.fromkeys(said["queues"])]
        refuse_unknown(names, {*self.declared(said), *known_queues(alias)})
        told = []
        for name in names:
            change = partial(self._switch, alias, name, by=by, reason=reason)
            changed, row = session_of(alias).outermost(change)
            if changed:
                signals.operator_acted.send(Message, verb=self.verb, queue=name, by=by, reason=reason, count=0)
            told.append(_document(row, changed=changed))
            if not said["json"]:
                self.stdout.write(_sentence(row, changed=changed))
        if said["json"]:
            self.say({"verb": self.verb, "queues": told}, as_json=True, text="")

    def _switch(self, alias: str, name: str, *, by: str, reason: str) -> tuple[bool, Queue]:
        rows = Queue.objects.using(alias)
        if self.pauses:
            rows.get_or_create(name=name)  # so that two first pauses at once have a row to lock
        with session_of(alias).transaction():
            row = rows.select_for_update().filter(pk=name).first()
            if row is None or row.is_paused == self.pauses:
                return False, row or Queue(name=name)
            self.switch(alias, name, by=by, reason=reason)
        return True, rows.get(pk=name)


def _document(row: Queue, *, changed: bool) -> dict[str, object]:
    return {
        "queue": row.name,
        "changed": changed,
        "paused": row.is_paused,
        "paused_at": iso(row.paused_at),
        "paused_by": row.paused_by,
        "pause_reason": row.pause_reason,
    }


def _sentence(row: Queue, *, changed: bool) -> str:
    words = {"queue": row.name, "by": plain(row.paused_by), "at": iso(row.paused_at), "reason": plain(row.pause_reason)}
    if changed:
        text = _("Queue %(queue)s is paused: %(reason)s") if row.is_paused else _("Queue %(queue)s is open again.")
    elif row.is_paused:
        text = _("Queue %(queue)s is already paused, by %(by)s since %(at)s: %(reason)s")
    else:
        text = _("Queue %(queue)s is already open.")
    return text % words
