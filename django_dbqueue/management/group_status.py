"""What ``queue_status --groups`` shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.translation import gettext as _

from django_dbqueue.insight.groups import GroupOverview, RankedGroup, find_groups, overviews
from django_dbqueue.management.console import iso, plain, table
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.counts import grouped
from django_dbqueue.states.spans import span

LISTED: Final = 100
"""Groups that are shown."""
CAP_OF_GROUP: Final = 1_000
"""Where counting of a group's messages stops by default."""


@dataclass(frozen=True, slots=True)
class GroupsReport:
    """The result of one look at groups."""

    at: datetime
    groups: list[GroupOverview]
    is_cut: bool
    """Whether there are more."""
    cap: int

    @classmethod
    def of(cls, session: DjangoSession, names: Iterable[str] | None, *, cap: int) -> GroupsReport:
        """Look at the groups of these queues (None: of all), those that need attention first."""
        found, is_cut = list[RankedGroup](), False
        for name in [None] if names is None else names:
            search = find_groups(session, queue=name, limit=LISTED)
            found += search.found
            is_cut = is_cut or search.is_cut
        found.sort()
        seen = overviews(session, found[:LISTED], cap=cap)
        return cls(clock(session.using), seen, is_cut or len(found) > LISTED, cap)

    def document(self, alias: str) -> dict[str, object]:
        """Return it for programs."""
        return {
            "database": alias,
            "at": iso(self.at),
            "cap": self.cap,
            "more": self.is_cut,
            "groups": [self._one(each) for each in self.groups],
        }

    def lines(self) -> list[str]:
        """Return it for people."""
        if not self.groups:
            return [_("No group has messages that wait or run, or a limit, a rate or a pause of its own.")]
        head = [_("QUEUE"), _("GROUP"), _("WAITING"), _("OUT"), _("LIMIT"), _("RATE"), _("OLDEST"), _("STATE")]
        rows = [
            [
                each.group.queue, plain(each.group.name), str(each.waiting), str(each.out), grouped(each.limit),
                each.rate or "-", "-" if each.oldest is None else span(self.at - each.oldest), self._state(each),
            ]
            for each in self.groups
        ]  # fmt: skip
        more = [_("There are more groups: name a queue to see others.")] if self.is_cut else []
        return [*table(head, rows, left=(0, 1, len(head) - 1)), *more]

    def _one(self, each: GroupOverview) -> dict[str, object]:
        group = each.group
        return {
            "queue": group.queue,
            "group": group.name,
            "waiting": int(each.waiting),
            "out": int(each.out),
            "capped": [name for name, count in (("waiting", each.waiting), ("out", each.out)) if count.more],
            "limit": each.limit,
            "own_limit": group.width,
            "rate": each.rate,
            "own_rate": group.rate,
            "oldest_at": iso(each.oldest),
            "held_by": each.held_by,
            "paused": group.is_paused,
            "paused_at": iso(group.paused_at),
            "paused_by": group.paused_by,
            "pause_reason": group.pause_reason,
        }

    def _state(self, each: GroupOverview) -> str:
        group = each.group
        if group.is_paused:
            since = "?" if group.paused_at is None else span(self.at - group.paused_at)
            text = _("paused for %(since)s by %(by)s") % {"since": since, "by": plain(group.paused_by) or "?"}
            return f"{text}: {plain(group.pause_reason)}" if group.pause_reason else text
        return _("open") if each.held_by is None else _("held by #%(id)s") % {"id": each.held_by}
