"""Why a message of a group waits for its turn: which other one has to end first, or who has paused the group."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue import conf
from django_dbqueue.insight.answer import Why
from django_dbqueue.insight.groups import holders
from django_dbqueue.insight.suspended import suspension_of
from django_dbqueue.lanes import groups_sql
from django_dbqueue.models.group import Group
from django_dbqueue.models.message import Message
from django_dbqueue.models.stream import StreamClaim
from django_dbqueue.states.counts import Capped, grouped
from django_dbqueue.states.spans import span
from django_dbqueue.states.table import state_of

MOST_COUNTED: Final = 1_000
"""Where counting of those that wait before one stops."""
NAMED: Final = 5
"""Messages in front of it that are named."""


def why_it_waits(message: Message, now: datetime, queue_paused: tuple[str, ...]) -> Why:
    """Say why a message waits in its group's line; ``queue_paused`` tells of a pause of its queue."""
    session, lane = message._session, message.lane or 0
    group = Group.objects.using(session.using).filter(pk=lane).first()
    before = (*_before(message), *queue_paused)
    if group is not None and group.is_paused:
        text = _("It waits because its group %(group)s is paused: none of its messages begins.")
        return Why(
            "group_paused", text % {"group": message.group_name}, (_words_of(group), *before),
            verbs=("resume_group", "reject", "drop"), error=message.error,
        )  # fmt: skip
    limit = (None if group is None else group.width) or conf.queue_options(message.queue).group_limit
    if limit > 1:
        before = (_("Up to %(limit)s messages of its group may run at once.") % {"limit": grouped(limit)}, *before)
    out = holders(session, lane, NAMED + 1)
    if not out:
        return _idle(message, before)
    living = [each for each in out if not each.is_dead]
    if not living:
        return _held(message, out[0], before)
    StreamClaim.objects.using(session.using).join(living)
    suspension = _suspension_of(living[0], now)
    if suspension is not None:
        before = (f"#{living[0].pk}: {suspension.text}", *before)
    text = _behind(living[0], now, is_suspended=suspension is not None) % {
        "group": message.group_name,
        "id": living[0].pk,
        "span": span(abs((living[0].lease_until or now) - now)),
    }
    if others := [f"#{each.pk}" for each in out if each is not living[0]]:
        more = "…" if len(others) > NAMED - 1 else ""
        before = (_("Also before it: %(messages)s") % {"messages": ", ".join(others[: NAMED - 1]) + more}, *before)
    return Why("behind", text, before, verbs=("reject", "drop"), error=message.error, behind=living[0].pk)


def holds_its_group(message: Message) -> tuple[str, ...]:
    """Say that a dead message holds its group, if it does."""
    if message.lane is None or conf.queue_options(message.queue).on_dead != conf.HOLD:
        return ()
    session = message._session
    if not session.fetch(groups_sql.with_ticket(session.server, [(message.lane, message.pk)])):
        return ()
    text = _("It holds its group %(group)s, which continues when it is requeued, dropped or purged.")
    return (text % {"group": message.group_name},)


def _suspension_of(first: Message, now: datetime) -> Why | None:
    return suspension_of(first, first.available_at) if state_of(first, now).name in {"delayed", "waiting"} else None


def stands_in_line(message: Message) -> bool:
    """Return whether a message that waits is of a group, and has no ticket: it waits for others of the group."""
    if message.lane is None:
        return False
    session = message._session
    return not session.fetch(groups_sql.with_ticket(session.server, [(message.lane, message.pk)]))


def _behind(first: Message, now: datetime, *, is_suspended: bool) -> str:
    if is_suspended:
        return _("It waits for its turn: #%(id)s of its group %(group)s is suspended by its own handler.")
    state = state_of(first, now).name
    if state == "running":
        return _("It waits for its turn: #%(id)s of its group %(group)s is running.")
    if state == "stuck":
        return _("It waits for its turn: #%(id)s of its group %(group)s is stuck; its lease expired %(span)s ago.")
    if state == "ready":
        return _("It waits for its turn: #%(id)s of its group %(group)s is ready, and has not been claimed yet.")
    if first.read_count:
        return _("It waits for its turn: #%(id)s of its group %(group)s failed, and is retried in %(span)s.")
    return _("It waits for its turn: #%(id)s of its group %(group)s is delayed, and due in %(span)s.")


def _held(message: Message, dead: Message, before: tuple[str, ...]) -> Why:
    words = {"group": message.group_name, "id": dead.pk}
    return Why(
        "group_held", _("It waits because #%(id)s is dead, and holds its group %(group)s.") % words, before,
        verbs=("reject", "drop"), error=message.error, behind=dead.pk,
        advice=_("Requeue or drop #%(id)s: then the group continues.") % words,
    )  # fmt: skip


def _idle(message: Message, before: tuple[str, ...]) -> Why:
    return Why(
        "group_idle", _("It waits for its turn, but nothing of its group %(group)s may run at the moment.")
        % {"group": message.group_name}, before, verbs=("reject", "drop"), error=message.error,
        advice=_(
            "A worker lets the next one of the group run within half a minute. If it stays here, start a worker, and "
            "run manage.py queue_doctor."
        ),
    )  # fmt: skip


def _before(message: Message) -> tuple[str, ...]:
    session = message._session
    [(count,)] = session.fetch(groups_sql.count_before(session.server, message.lane or 0, message.pk, MOST_COUNTED + 1))
    if not count:
        return (_("It is the next one of its group."),)
    text = ngettext(
        "%(count)s message of its group waits before it.", "%(count)s messages of its group wait before it.", count
    )
    return (text % {"count": Capped(count, MOST_COUNTED)},)


def _words_of(group: Group) -> str:
    since = "–" if group.paused_at is None else f"{group.paused_at:%Y-%m-%d %H:%M:%S} UTC"
    return _("The group %(group)s has been paused since %(since)s, by %(by)s: %(reason)s") % {
        "group": group.name,
        "since": since,
        "by": group.paused_by or _("somebody"),
        "reason": group.pause_reason or _("no reason given"),
    }
