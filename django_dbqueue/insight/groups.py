"""Groups for people: which have something now, how much waits and runs in each, and what holds them up.

Lanes are found by skip scans, one index entry each, and never more than are listed; within a lane counts stop at a cap.
Groups that are paused or held are found by indexes of their own, so that none is missed among a million.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from django_dbqueue import conf
from django_dbqueue.databases.statement import Row, chunks
from django_dbqueue.envelope import WHOLE_QUEUE, check_group, check_queue
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.insight.first_ids import first_ids
from django_dbqueue.keys import LANES, first_lane, lane_of
from django_dbqueue.lanes import groups_sql
from django_dbqueue.lanes.walk import LAST, next_lanes
from django_dbqueue.models.group import Group, Line, Ticket
from django_dbqueue.models.message import Message
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.counts import Capped
from django_dbqueue.states.depths import ROWS_AT_ONCE
from django_dbqueue.states.ranges_in_use import Range, queues_in_use, ranges_in_use

STEP: Final = 500
"""Lanes, or messages, that one statement names."""
_EVER: Final = datetime.min.replace(tzinfo=UTC)
_READS: Final = 4
"""Times that a lane's rows are read for its sizes."""


class RankedGroup(NamedTuple):
    """A group, in the order in which groups need attention."""

    rank: int
    """0: paused or held; 1: somebody waits; 2: nobody does; 3: nothing runs either."""
    since: datetime
    """When it was paused, or the first one was sent."""
    lane: int
    queue: str
    name: str


class Search(NamedTuple):
    """Groups that were found, and whether there are more than were looked at: then those listed are not the oldest."""

    found: list[RankedGroup]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class GroupOverview:
    """One group as it stands."""

    group: Group
    """Its row, or an unsaved one: it has nothing of its own."""
    limit: int
    """How many of it may run at once: by its row, or the settings of its queue."""
    rate: str | None
    """How many of it may start in a time, such as "10/s": by its row, or the settings of its queue."""
    waiting: Capped
    """Who waits in its line."""
    out: Capped
    """Who may run, or runs: messages with a ticket, which keep it until they end."""
    held_by: int | None
    """A dead message that has a ticket still, and so holds its group."""
    oldest: datetime | None
    """When the first of its line was sent."""

    @property
    def is_held(self) -> bool:
        """Whether its next one waits for an operator's decision on a dead message."""
        return self.held_by is not None


def find_groups(session: DjangoSession, *, queue: str | None = None, limit: int) -> Search:
    """Return the groups that have something now, of one queue or of all; those that need attention first."""
    first, last = (0, LAST) if queue is None else (first_lane(queue), first_lane(queue) + LANES - 1)
    rows = Group.objects.using(session.using).filter(lane__gte=first, lane__lte=last).order_by("lane")
    found: dict[int, RankedGroup] = {}
    # IN, since MySQL uses no index for WHERE is_paused, as Django would say it
    for row in rows.filter(is_paused__in=(True,))[: limit + 1]:
        found[row.lane] = RankedGroup(0, row.paused_at or _EVER, row.lane, row.queue, row.name)
    for each in _held(session, queue, limit):
        found.setdefault(each.lane, each)
    tables = (session.server.line, session.server.ticket)
    walked = [next_lanes(session, table, after=first - 1, until=last, limit=limit + 1) for table in tables]
    for each in _named(session, {lane for lanes in walked for lane in lanes}):
        found.setdefault(each.lane, each)
    own = [row for row in rows[: limit + 1] if row.width is not None or row.rate is not None]
    for row in [*_rated(session, queue, limit), *own]:
        found.setdefault(row.lane, RankedGroup(3, _EVER, row.lane, row.queue, row.name))
    those = sorted(each for each in found.values() if queue is None or each.queue == queue)
    return Search(those[: limit + 1], any(len(lanes) > limit for lanes in walked))


def groups_named(session: DjangoSession, name: str, queues: Iterable[str]) -> list[RankedGroup]:
    """Return the groups of this name, in queues where it has something now or of its own."""
    lanes = {lane_of(queue, name): queue for queue in queues}
    rows = Group.objects.using(session.using).in_bulk(lanes)
    known = {lane for lane, *firsts in _firsts(session, lanes) if any(first is not None for first in firsts)}
    return [RankedGroup(3, _EVER, lane, queue, name) for lane, queue in lanes.items() if lane in known or lane in rows]


def group_of(session: DjangoSession, queue: str, name: str) -> Group:
    """Return a group's row, or an unsaved one. InvalidMessage if there can be no such group."""
    lane = lane_of(check_queue(queue), name if name == WHOLE_QUEUE else check_group(name))
    return Group.objects.using(session.using).filter(pk=lane).first() or Group(lane=lane, queue=queue, name=name)


def group_at(session: DjangoSession, lane: int) -> Group | None:
    """Return the group of a lane: its row or, if somebody of it waits or may run, an unsaved one."""
    row: Group | None = Group.objects.using(session.using).filter(pk=lane).first()
    if row is not None:
        return row
    return next((Group(lane=lane, queue=each.queue, name=each.name) for each in _named(session, [lane])), None)


def overviews(session: DjangoSession, groups: Iterable[RankedGroup], *, cap: int) -> list[GroupOverview]:
    """Look at these groups. Nothing is locked, and each has its own moment."""
    named = list(groups)
    lanes = [each.lane for each in named]
    rows: dict[int, Group] = Group.objects.using(session.using).in_bulk(lanes)
    sizes = dict(_sizes(session, lanes, cap + 1))
    sent = _sent(session, {lane: line for lane, line, _ in _firsts(session, lanes) if line is not None})
    found = []
    for each in named:
        row = rows.get(each.lane) or Group(lane=each.lane, queue=each.queue, name=each.name)
        waiting, out, dead = sizes[each.lane]
        options = conf.queue_options(each.queue)
        limit, rate = row.width or options.group_limit, row.rate or options.group_rate
        found.append(
            GroupOverview(row, limit, rate, Capped(waiting, cap), Capped(out, cap), dead, sent.get(each.lane)),
        )
    return found


def overview_of(session: DjangoSession, group: Group, *, cap: int) -> GroupOverview:
    """Look at one group."""
    [seen] = overviews(session, [RankedGroup(0, _EVER, group.lane, group.queue, group.name)], cap=cap)
    return seen


def holders(session: DjangoSession, lane: int, limit: int) -> list[Message]:
    """Return the messages that have the first tickets of a lane, in the order of the tickets."""
    tickets = Ticket.objects.using(session.using).filter(lane=lane).order_by("lane", "ticket")
    ids = list(tickets.values_list("message_id", flat=True)[:limit])
    rows = Message.objects.using(session.using).defer("body", "headers_text").in_bulk(ids)
    return [rows[pk] for pk in ids if pk in rows]


def first_in_line(session: DjangoSession, lane: int, limit: int) -> list[Message]:
    """Return the first messages that wait in a lane, in the order in which they will run."""
    line = Line.objects.using(session.using).filter(lane=lane).order_by("lane", "message_id")
    ids = list(line.values_list("message_id", flat=True)[:limit])
    rows = Message.objects.using(session.using).defer("body", "headers_text").in_bulk(ids)
    return [rows[pk] for pk in ids if pk in rows]


def is_its_lane(group: Group) -> bool:
    """Return whether a row has the lane of its queue and name; one that was written by SQL may have another."""
    try:
        return lane_of(check_queue(group.queue), group.name) == group.lane
    except InvalidMessage:
        return False


def _held(session: DjangoSession, queue: str | None, limit: int) -> Iterator[RankedGroup]:
    """Yield groups that a dead message holds, found by the dead of the queues where it can."""
    ranges = [each for each in _ranges(session, queue) if conf.queue_options(each.queue).on_dead == conf.HOLD]
    ids = first_ids(session, "dead", ranges, limit=limit + 1) if ranges else []
    for some in chunks(ids, STEP):
        dead = Message.objects.using(session.using).filter(pk__in=some, lane__isnull=False)
        groups = {
            pk: RankedGroup(0, when or _EVER, lane or 0, name, group or "")
            for pk, when, lane, name, group in dead.values_list("id", "finished_at", "lane", "queue", "group_name")
        }
        places = [(each.lane, pk) for pk, each in groups.items()]
        for _lane, pk in session.fetch(groups_sql.with_ticket(session.server, places)) if places else []:
            yield groups[pk]


def _rated(session: DjangoSession, queue: str | None, limit: int) -> Iterable[Group]:
    """Return groups with a rate of their own, by its index: where a queue has a rate, each of its groups has a row."""
    names = {*conf.get("QUEUES"), *queues_in_use(session)} if queue is None else {queue}
    # A range: of many queues SQLite reads the whole table for IS NOT NULL
    return Group.objects.using(session.using).filter(queue__in=names, rate__gt="")[: limit + 1]


def _ranges(session: DjangoSession, queue: str | None) -> list[Range]:
    return ranges_in_use(session, None if queue is None else [queue])


def _named(session: DjangoSession, lanes: Collection[int]) -> Iterator[RankedGroup]:
    """Yield the groups of lanes, named by the first message that waits or may run."""
    firsts = {lane: (line, ticket) for lane, line, ticket in _firsts(session, sorted(lanes))}
    ids = {line if line is not None else ticket: lane for lane, (line, ticket) in firsts.items()}
    for some in chunks([pk for pk in ids if pk is not None], STEP):
        rows = Message.objects.using(session.using).filter(pk__in=some, group_name__isnull=False)
        for pk, queue, name, sent in rows.values_list("id", "queue", "group_name", "created_at"):
            lane = ids[pk]
            yield RankedGroup(2 if firsts[lane][0] is None else 1, sent, lane, queue, name or "")


def _firsts(session: DjangoSession, lanes: Iterable[int]) -> Iterator[Row]:
    for some in chunks(lanes, STEP):
        yield from session.fetch(groups_sql.firsts(session.server, some))


def _sizes(
    session: DjangoSession, lanes: Iterable[int], limit: int
) -> Iterator[tuple[int, tuple[int, int, int | None]]]:
    for some in chunks(lanes, max(1, min(50, ROWS_AT_ONCE // (_READS * limit)))):
        [row] = session.fetch(groups_sql.sizes(session.server, some, limit))
        for place, lane in enumerate(some):
            waiting, out, dead = row[3 * place : 3 * place + 3]
            yield lane, (int(waiting), int(out), dead)


def _sent(session: DjangoSession, ids: dict[int, int]) -> dict[int, datetime]:
    """Return when messages, given by lane, were sent."""
    lanes = {pk: lane for lane, pk in ids.items()}
    found: dict[int, datetime] = {}
    for some in chunks(lanes, STEP):
        rows = Message.objects.using(session.using).filter(pk__in=some).values_list("id", "created_at")
        found |= {lanes[pk]: sent for pk, sent in rows}
    return found
