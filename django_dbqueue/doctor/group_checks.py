"""Groups: places that nobody was given, and places that somebody keeps or waits for in vain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, Final, NamedTuple

from django.db.models import Count
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue import conf, models
from django_dbqueue.databases.statement import chunks
from django_dbqueue.doctor.check import examines
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine, note, problem, warning
from django_dbqueue.envelope import QUEUE_NAME
from django_dbqueue.lanes import groups_sql, lanes_sql
from django_dbqueue.lanes.walk import next_lanes
from django_dbqueue.models import Group, Message, Ticket
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.counts import grouped
from django_dbqueue.states.ranges_in_use import ranges_in_use

EXAMINED: Final = 5_000
"""Lanes, tickets, and places in lines that are looked at."""
STEP: Final = 500
MOST_QUEUES: Final = 200
LATE: Final = timedelta(seconds=60)
"""How long after it was sent the first of a line has been let run, where workers run: they look every 15 s."""
SHOWN: Final = 5
"""Messages that a finding names."""


class FirstInLine(NamedTuple):
    """The first of a line, and its group."""

    lane: int
    id: int
    queue: str
    name: str


@examines("groups", needs_tables=True)
def groups(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check that whoever may run does, that no place is kept by what has ended, and that no line names what is gone."""
    found = [*_left_behind(database), *_lost(database), *_kept_by_ended(database), *_gone(database)]
    yield from found
    if not found:
        yield fine(_("Every group continues: no place in one is free while somebody waits, or kept by what has ended."))


def _left_behind(database: ExaminedDatabase) -> Iterator[Finding]:
    """Look twice: between the commit that frees a place and the kick that follows it, one is free for a moment."""
    session = session_of(database.alias)
    lanes = next_lanes(session, database.server.line, after=-1, limit=EXAMINED)
    seen = set(_with_free_ticket(database, lanes))
    behind = sorted(seen & set(_with_free_ticket(database, [each.lane for each in seen]))) if seen else []
    if behind:
        first = behind[0]
        yield warning(
            ngettext(
                "%(count)s group could continue and doesn't: in group %(group)s of queue %(queue)s, #%(id)s waits for "
                "a place that is free.",
                "%(count)s groups could continue and don't: in group %(group)s of queue %(queue)s, for example, "
                "#%(id)s waits for a place that is free.",
                len(behind),
            )
            % {"count": grouped(len(behind)), "group": first.name, "queue": first.queue, "id": first.id},
            _(
                "A process died before it let the next message run. Every worker looks for that every 15 s, whatever "
                "its queues: start one or, if one runs, look for errors in its log."
            ),
        )


def _with_free_ticket(database: ExaminedDatabase, lanes: Iterable[int]) -> Iterator[FirstInLine]:
    """Yield the first of each line, if it was sent some time ago and its group has a place for it."""
    late = clock(database.alias) - LATE
    for some in chunks(lanes, STEP):
        firsts = {lane: line for lane, line, _ticket in database.ask(groups_sql.firsts(database.server, some)) if line}
        rows: Any = Message.objects.using(database.alias).filter(pk__in=firsts.values(), created_at__lte=late)
        waiters = [
            FirstInLine(lane, pk, queue, name)
            for pk, lane, queue, name in rows.values_list("id", "lane", "queue", "group_name")
            if firsts.get(lane) == pk
        ]
        own = Group.objects.using(database.alias).in_bulk([each.lane for each in waiters])
        out = _out(database, [each.lane for each in waiters])
        for each in waiters:
            group = own.get(each.lane)
            width = (None if group is None else group.width) or conf.queue_options(each.queue).group_limit
            if not (group is not None and group.is_paused) and out[each.lane] < width:
                yield each


def _out(database: ExaminedDatabase, lanes: list[int]) -> dict[int, int]:
    """Return how many tickets of each lane are out."""
    counted = Ticket.objects.using(database.alias).filter(lane__in=lanes).values_list("lane").annotate(Count("ticket"))
    return dict.fromkeys(lanes, 0) | dict(counted)


def _lost(database: ExaminedDatabase) -> Iterator[Finding]:
    """Look for messages that wait in no line: nothing would ever let them run."""
    session, lost = session_of(database.alias), list[int]()
    queues = sorted(
        {each.queue for each in ranges_in_use(session) if each.may_hold("ready") and QUEUE_NAME.match(each.queue)}
    )
    for queue in queues[:MOST_QUEUES]:
        limit = max(1, EXAMINED // min(len(queues), MOST_QUEUES))
        waiting = Message.objects.using(database.alias).only("lane").peek(queue, state="waiting", limit=limit)
        for some in chunks(waiting, STEP):
            known = _with_a_place(database, some) | _waiting_for_others(database, some)
            lost += [message.pk for message in some if message.pk not in known]
    if lost and (still := _still_parked(database, lost)):
        yield problem(
            _("Messages wait for their group, but stand in no line, so nothing lets them run: %(count)s (%(ids)s).")
            % {"count": grouped(len(still)), "ids": _named(still)},
            _(
                "Somebody has written or changed their rows by SQL. Reject them in the admin, and requeue them from "
                "the dead letters: that puts them into their lines."
            ),
        )


def _with_a_place(database: ExaminedDatabase, some: list[Message]) -> set[int]:
    """Return those of groups that stand in their line, or have a ticket."""
    places = [(each.lane, each.pk) for each in some if each.lane is not None]
    if not places:
        return set()
    return {
        pk
        for _lane, pk in database.ask(groups_sql.in_line(database.server, places))
        + database.ask(groups_sql.with_ticket(database.server, places))
    }


def _waiting_for_others(database: ExaminedDatabase, some: list[Message]) -> set[int]:
    """Return those that wait for others of their flow, and those without a group that wait for an event."""
    alone = [message.pk for message in some if message.lane is None]
    waiters = models.Waiter.objects.using(database.alias).filter(message_id__in=alone)
    gates = models.Edge.objects.using(database.alias).filter(downstream__in=[each.pk for each in some], upstream=0)
    return {*waiters.values_list("message_id", flat=True), *gates.values_list("downstream", flat=True)}


def _still_parked(database: ExaminedDatabase, ids: list[int]) -> list[int]:
    """Return those that have not moved since they were read: between two statements, some may have had their turn."""
    there: set[int] = set()
    for some in chunks(ids, STEP):
        rows = Message.objects.using(database.alias).waiting().filter(pk__in=some)
        there.update(rows.values_list("id", flat=True))
    return [pk for pk in ids if pk in there]


def _kept_by_ended(database: ExaminedDatabase) -> Iterator[Finding]:
    ended: list[int] = []
    after, examined = (-1, 0), 0
    while examined < EXAMINED:
        rows = database.ask(lanes_sql.tickets_behind(database.server, *after, STEP))
        ended += [
            message_id
            for _lane, _ticket, message_id, queue, how in rows
            if how == "ended" or (how == "dead" and conf.queue_options(queue or "").on_dead != conf.HOLD)
        ]
        examined += len(rows)
        if len(rows) < STEP:
            break
        after = (rows[-1][0], rows[-1][1])
    if ended:
        yield warning(
            _("Messages that have ended, or are gone, keep places of their groups: %(count)s (%(ids)s).")
            % {"count": grouped(len(ended)), "ids": _named(ended)},
            _(
                "Somebody has changed or deleted their rows by SQL. A worker frees such places within 15 s: start "
                "one. End messages with the queue's own verbs, or with queue_drop."
            ),
        )


def _gone(database: ExaminedDatabase) -> Iterator[Finding]:
    gone: list[int] = []
    after, examined = (-1, 0), 0
    while examined < EXAMINED:
        rows = database.ask(groups_sql.gone_from_line(database.server, after, STEP))
        gone += [message_id for _lane, message_id, _queue, is_gone in rows if is_gone]
        examined += len(rows)
        if len(rows) < STEP:
            break
        after = (rows[-1][0], rows[-1][1])
    if gone:
        yield note(
            _("Lines of groups name messages that are gone, or wait no more: %(count)s (%(ids)s).")
            % {"count": grouped(len(gone)), "ids": _named(gone)},
            _(
                "Somebody has changed or deleted their rows by SQL. It delays nobody: each is taken out when its turn "
                "comes."
            ),
        )


def _named(ids: list[int]) -> str:
    more = "…" if len(ids) > SHOWN else ""
    return ", ".join(f"#{each}" for each in ids[:SHOWN]) + more
