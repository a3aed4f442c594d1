"""Workers delete rows of the history that are older than the ``history_retention`` of their queue.

A walk goes over the ids, a window at a time, and stops at the first row that is too young: ids grow with time. Each
window is one transaction under the readers' mutex, as the purge of an export is, and ends before whatever a reader of
the history has not passed. A lake is a reader, whose position moves once a batch is verified: so nothing goes that an
export has planned, and not yet verified. Where rows left by other queues are passed, the place is remembered, in the
database: nobody passes them twice.

In a history of partitions, those all of whose rows have expired are recorded as purged, and dropped, as an export's are
(``partitions``). How old a row is, ``lived_time`` says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from typing import Final

from django.db import DatabaseError

from django_dbqueue.databases.statement import MAX_IDS, Statement, chunks
from django_dbqueue.history import age_sql, history_sql, partitions
from django_dbqueue.history.age_state import AgeState, Scope, WalkPlace, longest, read_from_rows, scopes
from django_dbqueue.history.lived_time import SECOND, UNSEEN, LivedTime
from django_dbqueue.history.partitions import Partition
from django_dbqueue.lifecycle import archive_sql
from django_dbqueue.lifecycle.left_behind import LeftBehind
from django_dbqueue.sessions.apart import apart
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.sessions.retry import is_refused
from django_dbqueue.statements import scan_sql

CHECK_EVERY: Final = 600.0
"""Seconds between two checks by one worker, while nothing is left to delete."""
OTHERS_CHECK: Final = 300 * SECOND
"""If another one has checked since then, the rest is left to it."""
WINDOW: Final = 1_000
"""Rows that one transaction reads, and deletes at most."""
AT_ONCE: Final = 5_000
"""Rows of a scope that one turn passes."""
SAMPLES: Final = 16
"""Rows of a partition, evenly spread, that must all have expired. Its last one alone may have been written while the
clock was a year behind."""
TRIED_AGAIN: Final = 86_400 * SECOND
"""After which the walk goes over the rows again that had to be left behind."""


class AgeWalk:
    """What one worker does for that; any number of them may, of which one at a time does something."""

    def __init__(self, session: DjangoSession) -> None:
        self._session = session
        self._next_at = 0.0
        self._is_at_it = False
        """Whether the last turn has left something to do."""
        self._left = LeftBehind("ArchivedMessage")
        self._doomed: list[int] = []

    def turn(self, default: float | None, named: Mapping[str, float | None]) -> bool:
        """Delete a bounded part of what has expired, if it is time; return whether more is left.

        ``default`` and ``named``: for how many seconds rows are kept, None for ever (``conf.history_retentions``).
        """
        wanted, now = scopes(default, named), time.monotonic()
        if not wanted or now < self._next_at:
            return False
        self._next_at = now + CHECK_EVERY
        if not self._is_at_it and self._is_done_by_another():
            return False
        lived = self._session.outermost(partial(self._check, wanted))
        if lived is None:
            self._next_at = now  # in a minute
            return False
        self._is_at_it = self._delete_before(lived, wanted, longest(default, named))
        if self._is_at_it:
            self._next_at = now
        return self._is_at_it

    def _delete_before(self, lived: LivedTime, wanted: list[Scope], age: float | None) -> bool:
        """Delete what has expired; ``age``: that at which all rows have. Return whether more is left."""
        counted = self._counted_to()
        if age is not None and (there := partitions.existing(self._session)):
            self._session.outermost(partial(self._expire, there, min(lived.before(age), counted)))
            partitions.keep(self._session)
            wanted = [scope for scope in wanted if scope.seconds != age]
        more = [self._walk(scope, min(lived.before(scope.seconds), counted)) for scope in wanted]
        return any(more)

    def _counted_to(self) -> int:
        """Return the moment before which nothing is left to count: the charts would lack a row that went uncounted."""
        rows = self._session.fetch(age_sql.counted_to(self._session.server))
        return int(rows[0][0]) - 1 if rows else age_sql.EVERY_ID

    def _is_done_by_another(self) -> bool:
        """Return whether somebody has checked lately. Of an idle fleet, each asks this alone, in one statement."""
        rows = self._session.fetch(age_sql.since_last_check(self._session.server))
        return bool(rows) and 0 <= int(rows[0][0]) < OTHERS_CHECK

    # -- under the mutex -----------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self, *, wait: bool = False) -> Iterator[bool]:
        """Be the only one who purges, or registers a reader; yields False if somebody else is at it."""
        session, server = self._session, self._session.server
        if not session.fetch(archive_sql.find_mutex(server, history_sql.READERS)):
            session.run(archive_sql.create_mutex(server, history_sql.READERS))
        with session.transaction():
            yield bool(session.fetch(archive_sql.lock_mutex(server, history_sql.READERS, wait=wait)))

    def _check(self, wanted: list[Scope]) -> LivedTime | None:
        """Check the clock, and remember it; None if somebody else is at it."""
        session = self._session
        with self._alone() as is_alone:
            if not is_alone:
                return None
            [(moment,)] = session.fetch(age_sql.clock(session.server))
            now, state, age = int(moment), AgeState.read(session), max(scope.seconds for scope in wanted)
            if state is None:
                state = AgeState(read_from_rows(session, None, now, age).checked(now))
                state.insert(session)
                return state.lived
            if now - state.lived.seen > UNSEEN:
                state.lived = read_from_rows(session, state.lived, now, age)
            state.lived = state.lived.checked(now)
            state.lived = state.lived.since(state.lived.before(age))
            state.forget_places(wanted)
            state.update(session)
            return state.lived

    def _bound(self) -> int:
        """Return the id up to which every reader has come, and every lake has verified what it has planned."""
        [(position,)] = self._session.fetch(age_sql.slowest_reader(self._session.server))
        return age_sql.EVERY_ID if position is None else int(position)

    # -- rows ----------------------------------------------------------------------------------------------------

    def _walk(self, scope: Scope, before: int) -> bool:
        """Delete what has expired of a scope; return whether it stopped before the first row that is too young."""
        passed = 0
        while passed < AT_ONCE:
            try:
                rows = self._session.outermost(partial(self._pass, scope, before))
            except DatabaseError as error:
                if not self._doomed or not is_refused(error):
                    raise
                self._delete_apart(scope)
                continue
            if rows is None:
                return True
            passed += rows
            if rows < WINDOW:
                return False
        return True

    def _pass(self, scope: Scope, before: int) -> int | None:
        """Delete the expired rows of a scope in its next window; return how many rows were passed, of any queue.

        None: somebody else is at it.
        """
        session, self._doomed = self._session, []
        with self._alone() as is_alone:
            state = AgeState.read(session) if is_alone else None
            if state is None:
                return None
            place = state.places.get(scope.key, WalkPlace())
            if place.again_at is not None and place.again_at <= state.lived.seen:
                place = WalkPlace()
            rows = session.fetch(age_sql.window(session.server, place.id, self._bound(), WINDOW))
            old = list(takewhile(lambda row: int(row[2]) <= before, rows))
            if not old:
                return 0
            expired = [int(row[0]) for row in old if scope.has(row[1])]
            self._doomed = self._locked(self._left.without(session, expired))
            last = int(old[-1][0])
            if len(self._doomed) == len(old):
                session.run(history_sql.delete_history(session.server, place.id, last))
            else:
                self._delete(self._doomed)
            again_at = place.again_at
            if len(self._doomed) < len(expired) and again_at is None:
                again_at = state.lived.seen + TRIED_AGAIN
            state.move(scope, WalkPlace(last, again_at), self._doomed)
            state.update(session)
            return len(old)

    def _locked(self, ids: Sequence[int]) -> list[int]:
        """Lock rows; return those that nobody else has locked.

        A row of the project's that is to point to one, by a foreign key, locks it until its transaction ends: to wait
        for that would keep this worker from claiming.
        """
        if not self._session.server.skip_locked:
            return [*ids]
        statements = [age_sql.lock_rows(self._session.server, some) for some in chunks(ids, MAX_IDS)]
        return [int(row[0]) for each in statements for row in self._session.fetch(each)]

    def _delete(self, ids: Sequence[int]) -> None:
        server = self._session.server
        for some in chunks(ids, MAX_IDS):
            window = Statement(" AND id BETWEEN %s AND %s", (some[0], some[-1]))  # else PostgreSQL reads a small table
            self._session.run(server.delete_each(server.archived, ("id",), [(each,) for each in some], such=window))

    def _delete_apart(self, scope: Scope) -> None:
        """Delete in halves what the server refused together, and name what it refuses alone; the walk passes that."""
        apart(
            list(self._doomed),
            lambda some: self._session.outermost(partial(self._delete_some, scope, some)),
            self._left.refused,
        )

    def _delete_some(self, scope: Scope, ids: list[int]) -> None:
        with self._alone(wait=True):
            state = AgeState.read(self._session)
            if state is not None and max(ids) <= self._bound():  # else a reader has gone back in the meantime
                self._delete(ids)
                state.move(scope, state.places.get(scope.key, WalkPlace()), ids)
                state.update(self._session)

    # -- partitions ----------------------------------------------------------------------------------------------

    def _expire(self, there: Sequence[Partition], before: int) -> None:
        """Record as purged the first partitions, as far as all of their rows have expired and every reader has come."""
        session = self._session
        with self._alone() as is_alone:
            state = AgeState.read(session) if is_alone else None
            [(first, newest)] = session.fetch(scan_sql.ends(session.server.archived))
            if state is None or first is None:
                return
            bound, expired = self._bound(), state.purged_to
            for each in there:
                if each.upper is None or each.upper - 1 > bound or each.upper > int(newest):
                    break
                if not self._has_expired(max(each.lower or 0, int(first)), each.upper, before):
                    break
                expired = each.upper - 1
            if expired is not None and expired > (state.purged_to or 0):
                state.purged_to, state.gone_to = expired, max(state.gone_to, expired)
                state.update(session)

    def _has_expired(self, lower: int, upper: int, before: int) -> bool:
        """Return whether rows from everywhere between two ids have expired, the last one among them."""
        server, step = self._session.server, max(1, (upper - lower) // SAMPLES)
        samples = [age_sql.first_between(server, place, upper) for place in range(lower, upper, step)]
        rows = [*map(self._session.fetch, [*samples, age_sql.last_between(server, lower, upper)])]
        return all(int(moment) <= before for found in rows for _, moment in found)
