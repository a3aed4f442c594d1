"""The scratch queues of a run: their names, their settings, and how nothing of them is left."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings

from django_dbqueue import conf
from django_dbqueue.databases.statement import chunks
from django_dbqueue.keys import lane_of
from django_dbqueue.models import (
    ArchivedMessage,
    Failure,
    Group,
    Line,
    Message,
    MessageEvent,
    Queue,
    QueueMinute,
    QueueStatistic,
    QueueTotal,
    Ticket,
    Worker,
)

LEASE: Final = 5.0
"""Seconds; short, so that what a frozen worker holds comes again within the run."""
LIMIT: Final = 3
"""How many of a group run at once in the queue that tries the limit."""
GROUPS: Final = 8
_PREFIX: Final = "torture-"
_NAME: Final = re.compile(_PREFIX + "[0-9a-f]{16}")
_TOGETHER: Final = 500


@dataclass(frozen=True, slots=True)
class Scratch:
    """Three queues with a random name: one in which groups keep an order, one with a limit, one for the effects."""

    name: str

    @classmethod
    def drawn(cls) -> Scratch:
        """Draw a name that no project has."""
        return cls(_PREFIX + secrets.token_hex(8))

    @classmethod
    def named(cls, name: str) -> Scratch:
        """Return those of an earlier run. Raises ValueError if no run can have had the name."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a run: torture- and 16 hexadecimal digits")
        return cls(name)

    @property
    def ordered(self) -> str:
        """The queue whose groups run one message after the other."""
        return f"{self.name}.ordered"

    @property
    def limited(self) -> str:
        """The queue whose groups run ``LIMIT`` at once."""
        return f"{self.name}.limited"

    @property
    def effects(self) -> str:
        """The queue that nobody consumes: each of its messages is what a handler did, in the ack's transaction."""
        return f"{self.name}.effects"

    @property
    def worked(self) -> tuple[str, str]:
        """The queues that workers serve."""
        return self.ordered, self.limited

    @property
    def lanes(self) -> list[int]:
        """The lanes of all groups of the run."""
        return [lane_of(queue, name) for queue in self.worked for name in self.groups()]

    @staticmethod
    def groups() -> list[str]:
        """The names of the groups."""
        return [f"g{number}" for number in range(GROUPS)]

    def settle_in(self) -> None:
        """Let this process's settings say how the scratch queues work, whatever the project's defaults are."""
        options = conf.PER_QUEUE | {"lease": LEASE, "max_reads": 0, "backoff": 0.05, "backoff_max": 0.5}
        queues = {
            self.ordered: options,
            self.limited: options | {"group_limit": LIMIT},
            self.effects: options,
        }
        configured: dict[str, Any] = getattr(settings, conf.NAME, {})
        setattr(settings, conf.NAME, configured | {"QUEUES": configured.get("QUEUES", {}) | queues})

    def clean_up(self, alias: str) -> None:
        """Delete every row of the scratch queues; the processes of the run have ended."""
        queues = (*self.worked, self.effects)
        while ids := self._some_ids(alias, queues):
            for by_message in (ArchivedMessage, MessageEvent):
                _delete(by_message.objects.using(alias).filter(message_id__in=ids))
            _delete(Message.objects.using(alias).filter(pk__in=ids))
        for lanes in chunks(self.lanes, _TOGETHER):
            for by_lane in (Line, Ticket, Group):
                _delete(by_lane.objects.using(alias).filter(lane__in=lanes))
        for by_queue in (Failure, QueueMinute, QueueStatistic, QueueTotal):
            _delete(by_queue.objects.using(alias).filter(queue__in=queues))
        _delete(Queue.objects.using(alias).filter(name__in=queues))
        _delete(self.workers(alias))

    def workers(self, alias: str) -> Any:
        """Return the rows of the run's workers."""
        return Worker.objects.using(alias).filter(queues=",".join(self.worked))

    @staticmethod
    def _some_ids(alias: str, queues: Iterable[str]) -> list[int]:
        rows = Message.objects.using(alias).filter(queue__in=queues)
        return list(rows.values_list("pk", flat=True)[:_TOGETHER])


def _delete(rows: Any) -> None:
    """Delete by one statement: Django's ``delete`` would fetch the rows first."""
    rows._raw_delete(rows.db)
