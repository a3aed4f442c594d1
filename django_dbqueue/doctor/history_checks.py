"""How the history grows, and whether what is to make it smaller does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from django.utils.translation import gettext as _

from django_dbqueue import conf
from django_dbqueue.doctor.check import examines
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine, note, warning
from django_dbqueue.history import age_sql, history_sql
from django_dbqueue.history.age_state import AgeState, Scope, WalkPlace, scopes
from django_dbqueue.history.lived_time import SECOND
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.states.counts import grouped

LARGE: Final = 1_000_000
"""Rows from which a history that nothing makes smaller is worth a note."""
HOUR: Final = 3_600 * SECOND
DAY: Final = 24 * HOUR
DAYS: Final = 7
"""Over which the growth is measured."""
LEAST: Final = HOUR
"""A shorter time says nothing of a day."""
LATE: Final = 2 * DAY
"""How long after its time an expired row is deleted at the latest, where workers run."""


class _Size(NamedTuple):
    """Of the history: its first and last id, the clock, and when its first row was archived."""

    first: int
    last: int
    now: int
    begun: int

    @property
    def rows(self) -> int:
        """At most: ids between rows may be missing."""
        return self.last - self.first + 1


@examines("history-growth", needs_tables=True)
def growth(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check how fast the history grows, and whether anything makes it smaller."""
    session = session_of(database.alias)
    size = _size(session)
    if size is None:
        yield fine(_("The history is empty."))
        return
    [(size_in_bytes,)] = database.answer("whole size", database.server.archived)
    has = (
        _("The history has up to %(rows)s rows, in a file of %(bytes)s bytes.")
        if database.server.is_file
        else _("The history has up to %(rows)s rows, of %(bytes)s bytes with its indexes.")
    )
    figures = (
        f"{has % {'rows': grouped(size.rows), 'bytes': grouped(int(size_in_bytes))}} {_rate(session, size)}".strip()
    )
    default, named = conf.history_retentions()
    is_exported = any(
        str(row[0]).startswith(history_sql.LAKE) for row in session.fetch(history_sql.readers(session.server))
    )
    if size.rows < LARGE or is_exported or None not in (default, *named.values()):
        yield fine(figures)
        return
    yield note(
        _("%s It grows without end: queues have no history_retention, and nothing exports it.") % figures,
        _("Set history_retention in DEFAULTS, or for the queues that need none of their past, or export the history."),
    )


@examines("history-retention", needs_tables=True)
def retention(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether rows are deleted at the age that is set."""
    session, (default, named) = session_of(database.alias), conf.history_retentions()
    size, wanted = _size(session), scopes(default, named)
    if not wanted or size is None:
        return
    state = AgeState.read(session)
    if state is not None and state.lived.unseen * SECOND > DAY:
        yield note(
            _(
                "There are gaps of %d days in the time by which rows of the history are aged: no worker ran, or the "
                "clock was set. They count for little, so rows stay that much longer."
            )
            % (state.lived.unseen * SECOND / DAY),
        )
    shortest = min(scope.seconds for scope in wanted)
    until = _expired_before(session, size, size.now - int(shortest * SECOND) - LATE)
    held = [row for row in session.fetch(history_sql.readers(session.server)) if int(row[1]) + 1 < until]
    yield from _held(held, database.alias)
    future = _from_the_future(session, size, state, wanted)
    yield from future
    if not held and not future:
        yield fine(_("No reader of the history keeps rows that are older than their history_retention."))


def _from_the_future(
    session: DjangoSession, size: _Size, state: AgeState | None, wanted: Iterable[Scope]
) -> list[Finding]:
    """Return what keeps the rows behind a place, if that is a row from the future."""
    places = {state.places.get(scope.key, WalkPlace()).id for scope in wanted} if state is not None else set()
    first = [session.fetch(age_sql.first_between(session.server, place + 1, age_sql.EVERY_ID)) for place in places]
    late = [(moment, row) for found in first for row, moment in found if int(moment) > size.now + HOUR]
    if not late:
        return []
    moment, row = max(late)
    return [
        warning(
            _(
                "The row %(id)s of the history was archived while the clock was ahead: neither it nor any behind it is "
                "deleted by age before %(days)s days have passed."
            )
            % {"id": grouped(int(row)), "days": grouped(-(-(int(moment) - size.now) // DAY))},
            _("If that is too long, correct archived_at of such rows with SQL."),
        )
    ]


def _held(held: list[tuple[object, ...]], alias: str) -> Iterator[Finding]:
    for name, position, *_moments in held[:1]:
        yield warning(
            _("Rows of the history stay beyond their history_retention: %(name)s has read it up to id %(id)s only.")
            % {"name": name, "id": grouped(int(str(position)))},
            _("Let it continue; if it will not come back: %s")
            % f"manage.py queue_pipeline forget --database {alias} --reader {name}",
        )


def _size(session: DjangoSession) -> _Size | None:
    server = session.server
    [(now,)] = session.fetch(age_sql.clock(server))
    first = session.fetch(age_sql.first_between(server, 0, age_sql.EVERY_ID))
    last = session.fetch(age_sql.last_between(server, 0, age_sql.EVERY_ID))
    return _Size(int(first[0][0]), int(last[0][0]), int(now), int(first[0][1])) if first and last else None


def _rate(session: DjangoSession, size: _Size) -> str:
    """Say how many rows a day has brought lately, and when there will be twice as many."""
    begin = max(size.begun, size.now - DAYS * DAY)
    rows = size.last + 1 - _expired_before(session, size, begin)
    if size.now - begin < LEAST or not rows:
        return ""
    a_day = rows * DAY / (size.now - begin)
    return _("Lately, a day brings %(rows)s: at this rate, it doubles in %(days)s days.") % {
        "rows": grouped(round(a_day)),
        "days": grouped(round(size.rows / a_day)),
    }


def _expired_before(session: DjangoSession, size: _Size, moment: int) -> int:
    """Return the id from which on rows are younger than a moment: ids grow with time, so halving finds it."""
    low, high = size.first, size.last + 1
    while low < high:
        middle = (low + high) // 2
        found = session.fetch(age_sql.first_between(session.server, middle, age_sql.EVERY_ID))
        if not found or int(found[0][1]) > moment:  # none: all that was there has been deleted in the meantime
            high = middle
        else:
            low = int(found[0][0]) + 1
    return low
