"""What a move means for the lanes of its messages, in the same transaction; and the kick that follows its commit."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from django.db import DatabaseError, transaction

from django_dbqueue import conf
from django_dbqueue.databases import Change
from django_dbqueue.databases.statement import LanePlace, Statement
from django_dbqueue.exceptions import TransactionNotAllowed
from django_dbqueue.lanes import groups_sql, heads_sql, lanes_sql, rates_sql, tickets
from django_dbqueue.lanes.heads import followers_of
from django_dbqueue.lanes.kick import kick
from django_dbqueue.lanes.tickets import IntervalOf, WidthOf
from django_dbqueue.sessions.commit_hooks import is_only_a_testcase
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.sessions.snapshots import is_read_committed
from django_dbqueue.settable.rates import interval_of
from django_dbqueue.statements import enqueue_sql, moves_sql
from django_dbqueue.states.counts import counted

logger = logging.getLogger("django_dbqueue")


def places_of(session: DjangoSession, where: Statement) -> list[LanePlace]:
    """Lock the rows of a fence that are in a lane, and return their places."""
    return [LanePlace(*row) for row in session.fetch(lanes_sql.places(session.server, where))]


def moved(session: DjangoSession, change: Change, places: Sequence[LanePlace]) -> None:
    """Let messages that a change has moved keep their tickets, or hand them on, in the same transaction."""
    if change.in_lane == "stays":
        return
    ended, dead = list(places), [*places] if change.in_lane == "dies" else []
    if change.in_lane == "returns":
        died = places_of(session, moves_sql.dead_of(session.server, [place.id for place in places]))
        dead = ended = died
        if living := [place for place in places if place not in died]:
            back_in_lane(session, living)
    if holding := [place for place in dead if conf.queue_options(place.queue).on_dead == conf.HOLD]:
        _keep_places(session, holding)
        ended = [place for place in ended if place not in holding]
    if ended:
        leave(session, ended, were_running=change.in_lane == "done")


def back_in_lane(session: DjangoSession, places: Sequence[LanePlace]) -> None:
    """Let messages that are new again keep their tickets, or wait in their lines, in the same transaction."""
    freed = tickets.come_back(session, places, may_follow=_may_follow(places), sees_the_past=sees_the_past(session))
    kick_after_commit(session, _of(places, freed))


def leave(session: DjangoSession, places: Sequence[LanePlace], *, were_running: bool = False) -> None:
    """Take messages that ended out of their lanes; ``were_running``: none of them waits in a line."""
    freed = tickets.leave(
        session,
        places,
        _width_of(_of(places)),
        may_wait=not were_running,
        may_follow=_may_follow(places),
        hands_over=session.owns_transaction,
        interval_of=_interval_of(_of(places)),
    )
    kick_after_commit(session, _of(places, freed))


def _keep_places(session: DjangoSession, dead: Sequence[LanePlace]) -> None:
    """Let dead messages that hold their groups keep their tickets, or else their places in the line."""
    if not _may_follow(dead):
        return
    pairs = [(place.lane, place.id) for place in dead]
    followed = session.run(lanes_sql.leave(session.server, [(followers_of(lane), one) for lane, one in pairs]))
    if followed:
        lanes = sorted({place.lane for place in dead})
        has_ticket = {row[2] for row in session.fetch(heads_sql.tickets_of(session.server, lanes))}
        if waiting := [pair for pair in pairs if pair[1] not in has_ticket]:
            session.run(lanes_sql.enter(session.server, waiting))


def sees_the_past(session: DjangoSession) -> bool:
    """Return whether plain reads may show what was there when a caller's transaction began (MySQL, MariaDB)."""
    return bool(session.server.isolates) and not session.owns_transaction and not is_read_committed(session.connection)


def _may_follow(places: Iterable[LanePlace]) -> bool:
    """Return whether a worker may have taken some of these along with the heads of their lanes."""
    return any(conf.queue_options(queue).group_batch > 1 for queue in {place.queue for place in places})


def enter(session: DjangoSession, waiting: Sequence[LanePlace]) -> None:
    """Put parked messages into their lines, in the transaction that wrote them."""
    session.run(lanes_sql.enter(session.server, [(place.lane, place.id) for place in waiting]))
    kick_after_commit(session, _of(waiting))


def let_in(session: DjangoSession, place: LanePlace) -> None:
    """Give a message that was claimed out of its turn a ticket: the lowest free one, even above the lane's width."""
    session.run(lanes_sql.leave(session.server, [(place.lane, place.id)]))
    if session.fetch(groups_sql.with_ticket(session.server, [(place.lane, place.id)])):
        return
    out = {row[2] for row in session.fetch(lanes_sql.occupancy(session.server, [place.lane]))}
    session.run(
        lanes_sql.draw(
            session.server, [(place.lane, next(number for number in count() if number not in out))], place.id
        )
    )


def overwritten(session: DjangoSession, message_id: int, queue: str, *, old: int | None, new: int | None) -> None:
    """Let a message that got new content, and is due now, keep its place, or change its lane."""
    if old == new is not None:
        back_in_lane(session, [LanePlace(new, message_id, queue)])
        return
    places = [None if lane is None else LanePlace(lane, message_id, queue) for lane in (old, new)]
    change(session, message_id, old=places[0], new=places[1])


def change(session: DjangoSession, message_id: int, *, old: LanePlace | None, new: LanePlace | None) -> None:
    """Let a message that is new, and due, leave its lane for another one, in which it waits in the line."""
    if old is not None:
        leave(session, [old])
    if new is not None:
        session.run(lanes_sql.park(session.server, [message_id]))
        enter(session, [new])


def park_after_commit(session: DjangoSession, lane: int, queue: str) -> None:
    """Let what is ready in a lane wait again once the pause of its group is committed: until then others let it begin.

    Where only Django's TestCase has begun a transaction, it waits now.
    """
    connection = session.connection
    if is_only_a_testcase(connection):
        park_what_is_ready(session, lane, queue)
        return
    work = partial(park_what_is_ready, session, lane, queue)
    transaction.on_commit(work, using=session.using, robust=connection.in_atomic_block)


def park_what_is_ready(session: DjangoSession, lane: int, queue: str) -> None:
    """Let messages of a lane that have a ticket, but don't run, wait in the line again: its group was paused.

    It may have been resumed meanwhile, so its lane is kicked once they wait.
    """
    server = session.server

    def park() -> None:
        with session.transaction():
            tickets_out = {row[2]: row[:3] for row in session.fetch(heads_sql.tickets_of(server, [lane]))}
            if tickets_out and (
                ids := [row[0] for row in session.fetch(lanes_sql.ready(server, lane, [*tickets_out]))]
            ):
                session.run(lanes_sql.park(server, ids))
                session.run(lanes_sql.enter(server, [(lane, number) for number in ids]))
                if session.run(lanes_sql.free(server, [tickets_out[number] for number in ids])) < len(ids):
                    session.run(lanes_sql.free_of(server, [(lane, number) for number in ids]))  # they had others by now
                kick_after_commit(session, {lane: queue})

    session.outermost(park)


def hurry(session: DjangoSession, lane: int) -> None:
    """Make due what only the rate of a group held back: it was changed."""

    def work() -> None:
        ticketed = [row[2] for row in session.fetch(heads_sql.tickets_of(session.server, [lane]))]
        if ticketed:
            session.run(rates_sql.hurry(session.server, lane, ticketed))

    session.outermost(work)


class Kick:
    """A kick of lanes, each with its queue, once the transaction is committed."""

    def __init__(self, using: str, lanes: Mapping[int, str]) -> None:
        self.using = using
        self.lanes = dict(lanes)

    def __call__(self) -> None:
        try:
            kick_now(session_of(self.using), self.lanes)
        except DatabaseError:
            logger.warning(
                "%s could not be looked after once the messages were committed; a worker does that soon",
                counted(len(self.lanes), "group"), exc_info=True,
            )  # fmt: skip


def kick_after_commit(session: DjangoSession, lanes: Mapping[int, str]) -> None:
    """Kick these lanes, each given with its queue, once the transaction is committed: all of a transaction at once.

    Where only Django's TestCase has begun one, which never commits, they are kicked now.
    """
    if not lanes:
        return
    connection: Any = session.connection
    if is_only_a_testcase(connection):
        kick_now(session, lanes)
        return
    if connection.run_on_commit:
        savepoints, hook, *_ = connection.run_on_commit[-1]
        if isinstance(hook, Kick) and hook.using == session.using and savepoints == set(connection.savepoint_ids):
            hook.lanes.update(lanes)
            return
    transaction.on_commit(Kick(session.using, lanes), using=session.using)


def kick_now(session: DjangoSession, lanes: Mapping[int, str]) -> None:
    """Let the first of each line run while its lane has a free ticket, and wake workers for it."""
    went_on = kick(session, lanes, _width_of(lanes), interval_of=_interval_of(lanes), most_of=_most_of(lanes))
    for queue in {lanes[lane] for lane in went_on}:
        if session.server.notifies and conf.get("NOTIFY"):
            session.fetch(enqueue_sql.notify(queue))


def refuse_without_commit(session: DjangoSession) -> None:
    """Raise TransactionNotAllowed where nobody would know of the commit after which a lane is to be kicked."""
    connection: Any = session.connection
    if not connection.commit_on_exit if connection.in_atomic_block else not connection.get_autocommit():
        raise TransactionNotAllowed(
            "A message of a group was sent with autocommit off, where Django does not learn of your commit, after "
            "which the group is to continue: call set_autocommit(True) first."
        )


def _of(places: Iterable[LanePlace], lanes: set[int] | None = None) -> dict[int, str]:
    return {place.lane: place.queue for place in places if lanes is None or place.lane in lanes}


def _interval_of(lanes: Mapping[int, str]) -> IntervalOf | None:
    rated = {queue: conf.queue_options(queue).group_rate for queue in set(lanes.values())}
    found = {queue: interval_of(rate) for queue, rate in rated.items() if rate is not None}
    return (lambda lane: found.get(lanes[lane])) if found else None


def _width_of(lanes: Mapping[int, str]) -> WidthOf:
    widths = {queue: conf.queue_options(queue).group_limit for queue in set(lanes.values())}
    return lambda lane: widths[lanes[lane]]


def _most_of(lanes: Mapping[int, str]) -> WidthOf:
    options = {queue: conf.queue_options(queue) for queue in set(lanes.values())}
    most = {queue: max(each.group_limit, each.group_burst or 0) for queue, each in options.items()}
    return lambda lane: most[lanes[lane]]
