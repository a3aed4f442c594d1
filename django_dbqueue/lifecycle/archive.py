"""Archive and purge: move finished rows into the history, in bounded transactions, one archiver at a time.

A transaction locks the archivers' mutex, locks rows, copies them and deletes them. A kill at any statement leaves each
message in exactly one of the two tables. The mutex is taken before the history assigns ids and is held until the
commit, so these ids grow in commit order: a reader that continues from the highest id it has seen misses none. Inside
the caller's transaction, the mutex is held until that transaction ends. Rows are locked with SKIP LOCKED: the holder of
the mutex must not wait for a handler whose transaction has acked and is still running.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from django.db import DatabaseError

from django_dbqueue.databases.moments import as_text
from django_dbqueue.databases.statement import MAX_IDS, Row, Statement, chunks
from django_dbqueue.lifecycle import archive_sql, moves
from django_dbqueue.lifecycle.archive_sql import Behind
from django_dbqueue.lifecycle.left_behind import LeftBehind
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.sessions.retry import is_refused
from django_dbqueue.statements import moves_sql
from django_dbqueue.statements.steps_sql import forget_steps
from django_dbqueue.states.ranges_in_use import priorities_in_use
from django_dbqueue.statuses import DONE, NEW

BATCH = 500
MUTEX = "archiver"


class _Batch(NamedTuple):
    """What became of the rows that one statement found."""

    moved: int
    found: int
    last: Row | None
    """The last of them, as it was found; None if there was none."""


_NOTHING = _Batch(0, 0, None)


class _Refused(Exception):
    """The server keeps one or several of these rows from leaving; nothing was changed."""

    def __init__(self, ids: list[int], batch: _Batch, error: DatabaseError) -> None:
        super().__init__(error)
        self.ids = ids
        self.batch = batch
        self.error = error


@dataclass(slots=True)
class DoneWalk:
    """An archiver of a queue's done rows, oldest first, that remembers what it had to leave behind."""

    session: DjangoSession
    queue: str
    _place: tuple[int, Behind | None] | None = None
    """Once something was passed by: the priority, and the last row that was. None: begin with the oldest of all."""
    _left: LeftBehind = field(default_factory=LeftBehind)

    def archive(self, *, age: float, most_rows: int | None = None, limit: int | None = None, wait: bool = True) -> int:
        """Move rows that finished ``age`` seconds ago or earlier; return how many.

        It stops after the last one, soon after ``most_rows`` were met, after ``limit`` rows were moved, or when
        another archiver is active and ``wait`` is false. Rows that can't leave are passed by, and named in the log.
        """
        place = self._place
        moved = checked = 0
        for priority in priorities_in_use(self.session, self.queue, DONE):
            if place is not None and priority > place[0]:
                continue
            behind = place[1] if place is not None and priority == place[0] else None
            if not self.session.fetch(
                archive_sql.finished(self.session.server, self.queue, priority, age, 1, behind=behind, lock=False)
            ):
                continue  # the usual case, and no other archiver was kept waiting
            while True:
                self._place = (priority, behind) if behind is not None or self._place is not None else None
                wanted = BATCH if limit is None else min(BATCH, limit - moved)
                if not wanted or (most_rows is not None and checked >= most_rows):
                    return moved
                done = archive_sql.finished(self.session.server, self.queue, priority, age, wanted, behind=behind)
                batch = _move(self.session, self._left, done, wait=wait, may_be_dead=False)
                if batch is None:
                    return moved
                moved, checked = moved + batch.moved, checked + batch.found
                if batch.last is not None and batch.moved < batch.found:
                    behind = Behind(as_text(batch.last[1]), batch.last[0])
                if batch.found < wanted:
                    break
        self._place = None
        return moved


def count_old(session: DjangoSession, queue: str, state: str, *, age: float) -> Iterator[int]:
    """Count the done (or dead) rows of a queue that ended ``age`` seconds ago or earlier, in batches."""
    server = session.server
    if state == "done":
        for priority in priorities_in_use(session, queue, DONE):
            yield int(session.fetch(archive_sql.count_finished(server, queue, priority, age))[0][0])
        return
    for priority in priorities_in_use(session, queue, NEW):
        after = 0
        while rows := session.fetch(archive_sql.dead_behind(server, queue, priority, after, age, BATCH)):
            yield sum(bool(row[1]) for row in rows)
            after = rows[-1][0]


def purge(session: DjangoSession, ids: Iterable[int]) -> int:
    """Move those of the rows that are done or dead; return how many."""
    left, finished = LeftBehind(), partial(archive_sql.lock_finished, session.server)
    batches = (_move(session, left, finished(chunk), wait=True) for chunk in chunks(ids, MAX_IDS))
    return sum(batch.moved for batch in batches if batch is not None)


@dataclass(slots=True)
class DeadWalk:
    """An archiver of a queue's long-dead rows that remembers how far it has scanned.

    Dead rows are ordered by id in the claim index, which is not the order in which they died, so each one has to be
    checked: one window at a time, continuing where the last scan ended and starting over after the end.
    """

    session: DjangoSession
    queue: str
    _place: tuple[int, int] | None = None
    """The priority and the id of the last row that was checked; None before the first."""
    _left: LeftBehind = field(default_factory=LeftBehind)

    def archive(self, *, age: float, most_rows: int | None = None, limit: int | None = None, wait: bool = True) -> int:
        """Move rows that died ``age`` seconds ago or earlier; return how many.

        It stops after the last dead row, soon after ``most_rows`` were checked, after ``limit`` rows were moved, or
        when another archiver is active and ``wait`` is false.
        """
        server = self.session.server
        checked = moved = 0
        place = self._place
        for priority in priorities_in_use(self.session, self.queue, NEW):
            if place is not None and priority > place[0]:
                continue
            after = place[1] if place is not None and priority == place[0] else 0
            while True:
                if moved == limit or (most_rows is not None and checked >= most_rows):
                    self._place = (priority, after)
                    return moved
                left = None if limit is None else limit - moved
                rows = self.session.fetch(archive_sql.dead_behind(server, self.queue, priority, after, age, BATCH))
                old = [row[0] for row in rows if row[1]][:left]
                batch: _Batch | None = _NOTHING
                if old:
                    batch = _move(self.session, self._left, archive_sql.lock_dead(server, old, age), wait=wait)
                if batch is None:
                    self._place = (priority, after)
                    return moved
                moved, checked = moved + batch.moved, checked + len(rows)
                cut = len(old) == left
                if len(rows) < BATCH and not cut:
                    break
                after = old[-1] if cut else rows[-1][0]
        self._place = None
        return moved


def _move(
    session: DjangoSession, left: LeftBehind, find: Statement, *, wait: bool, may_be_dead: bool = True
) -> _Batch | None:
    """Move what a statement locks; return what became of it, or None if another archiver is active and not ``wait``.

    ``may_be_dead``: it may find dead messages, whose groups continue if they were held by them. What the server doesn't
    let go stays, and the others of the batch leave without it.
    """
    server = session.server
    while True:
        try:
            batch = session.outermost(partial(_move_alone, session, left, find, wait=wait, may_be_dead=may_be_dead))
        except _Refused as refused:
            return _move_apart(session, left, refused)
        if batch is not None:
            return batch
        if not wait and session.fetch(archive_sql.find_mutex(server, MUTEX)):
            return None
        session.outermost(partial(session.run, archive_sql.create_mutex(server, MUTEX)))


def _move_apart(session: DjangoSession, left: LeftBehind, refused: _Refused) -> _Batch:
    """Move what was refused together in halves, down to single rows; those that are refused alone are named."""
    if len(refused.ids) == 1:
        left.refused(refused.ids[0], refused.error)
        return refused.batch
    half, moved = len(refused.ids) // 2, 0
    for part in (refused.ids[:half], refused.ids[half:]):
        batch = _move(session, left, archive_sql.lock_finished(session.server, part), wait=True)
        moved += 0 if batch is None else batch.moved
    return refused.batch._replace(moved=moved)


def _move_alone(
    session: DjangoSession, left: LeftBehind, find: Statement, *, wait: bool, may_be_dead: bool
) -> _Batch | None:
    """Move as ``_move`` does; return None, having done nothing, if the mutex is taken or doesn't exist yet."""
    server, ids, batch = session.server, list[int](), _NOTHING
    try:
        with session.transaction():
            if not session.fetch(archive_sql.lock_mutex(server, MUTEX, wait=wait)):
                return None
            rows = session.fetch(find)
            batch = _Batch(0, len(rows), rows[-1] if rows else None)
            if ids := left.without(session, [row[0] for row in rows]):
                dead = moves.ties_of(session, moves_sql.dead_of(server, ids)) if may_be_dead else []
                session.run(archive_sql.copy_to_archive(server, ids))
                session.run(server.delete_each(server.message, ("id",), [(each,) for each in ids]))
                forget_steps(session, ids)
                if dead:
                    moves.untied(session, moves_sql.drop(server, ""), dead)
    except DatabaseError as error:
        if not ids or not is_refused(error):
            raise
        raise _Refused(ids, batch, error) from error
    return batch._replace(moved=len(ids))
