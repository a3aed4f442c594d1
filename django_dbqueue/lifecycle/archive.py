"""Archive and purge: move finished rows into the history, in bounded transactions, one archiver at a time.

A transaction locks the archivers' mutex, locks rows, copies them and deletes them. A kill at any statement leaves each
message in exactly one of the two tables. The mutex is taken before the history assigns ids and is held until the
commit, so these ids grow in commit order: a reader that continues from the highest id it has seen misses none. Inside
the caller's transaction, the mutex is held until that transaction ends. Rows are locked with SKIP LOCKED: the holder of
the mutex must not wait for a handler whose transaction has acked and is still running.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from django_dbqueue.databases.statements import Statement
from django_dbqueue.lifecycle import moves
from django_dbqueue.lifecycle.django_session import MAX_IDS, DjangoSession, chunks
from django_dbqueue.lifecycle.steps import forget_steps
from django_dbqueue.low_water import priorities_in_use
from django_dbqueue.statuses import DONE, NEW

BATCH = 500
MUTEX = "archiver"


def archive(session: DjangoSession, queue: str, *, age: float, limit: int | None = None, wait: bool = True) -> int:
    """Move done rows of a queue that finished ``age`` seconds ago or earlier; return how many.

    If another archiver is active, wait for it, or stop and return what was moved so far.
    """
    dialect = session.dialect
    moved = 0
    for priority in priorities_in_use(session, queue, DONE):
        if not session.fetch(dialect.archive.finished(queue, priority, age, 1, lock=False)):
            continue  # the usual case, and no other archiver was kept waiting
        while wanted := BATCH if limit is None else min(BATCH, limit - moved):
            done = dialect.archive.finished(queue, priority, age, wanted)
            batch = _move(session, done, wait=wait, may_be_dead=False)
            if batch is None:
                return moved
            moved += batch
            if batch < wanted:
                break
    return moved


def count_old(session: DjangoSession, queue: str, state: str, *, age: float) -> Iterator[int]:
    """Count the done (or dead) rows of a queue that ended ``age`` seconds ago or earlier, in batches."""
    dialect = session.dialect
    if state == "done":
        for priority in priorities_in_use(session, queue, DONE):
            yield int(session.fetch(dialect.archive.count_finished(queue, priority, age))[0][0])
        return
    for priority in priorities_in_use(session, queue, NEW):
        after = 0
        while rows := session.fetch(dialect.archive.dead_behind(queue, priority, after, age, BATCH)):
            yield sum(bool(row[1]) for row in rows)
            after = rows[-1][0]


def purge(session: DjangoSession, ids: Iterable[int]) -> int:
    """Move those of the rows that are done or dead; return how many."""
    dialect = session.dialect
    return sum(_move(session, dialect.archive.lock_finished(chunk), wait=True) or 0 for chunk in chunks(ids, MAX_IDS))


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

    def archive(self, *, age: float, looks: int | None = None, limit: int | None = None, wait: bool = True) -> int:
        """Move rows that died ``age`` seconds ago or earlier; return how many.

        It stops after the last dead row, soon after ``looks`` rows were checked, after ``limit`` rows were moved, or
        when another archiver is active and ``wait`` is false.
        """
        dialect = self.session.dialect
        looked = moved = 0
        place = self._place
        for priority in priorities_in_use(self.session, self.queue, NEW):
            if place is not None and priority > place[0]:
                continue
            after = place[1] if place is not None and priority == place[0] else 0
            while True:
                if moved == limit or (looks is not None and looked >= looks):
                    self._place = (priority, after)
                    return moved
                left = None if limit is None else limit - moved
                rows = self.session.fetch(dialect.archive.dead_behind(self.queue, priority, after, age, BATCH))
                old = [row[0] for row in rows if row[1]][:left]
                batch = _move(self.session, dialect.archive.lock_dead(old, age), wait=wait) if old else 0
                if batch is None:
                    self._place = (priority, after)
                    return moved
                moved, looked = moved + batch, looked + len(rows)
                cut = len(old) == left
                if len(rows) < BATCH and not cut:
                    break
                after = old[-1] if cut else rows[-1][0]
        self._place = None
        return moved


def _move(session: DjangoSession, find: Statement, *, wait: bool, may_be_dead: bool = True) -> int | None:
    """Move what a statement locks; return how many, or None if another archiver is active and ``wait`` is false.

    ``may_be_dead``: it may find dead messages, for whose groups life goes on if they were held by them.
    """
    dialect = session.dialect
    while True:
        moved = session.outermost(partial(_move_alone, session, find, wait=wait, may_be_dead=may_be_dead))
        if moved is not None:
            return moved
        if not wait and session.fetch(dialect.archive.find_mutex(MUTEX)):
            return None
        session.outermost(partial(session.run, dialect.archive.create_mutex(MUTEX)))


def _move_alone(session: DjangoSession, find: Statement, *, wait: bool, may_be_dead: bool) -> int | None:
    """Move as ``_move`` does; return None, having done nothing, if the mutex is taken or doesn't exist yet."""
    dialect = session.dialect
    with session.transaction():
        if not session.fetch(dialect.archive.lock_mutex(MUTEX, wait=wait)):
            return None
        ids = [row[0] for row in session.fetch(find)]
        if ids:
            dead = moves.ties_of(session, dialect.messages.dead_of(ids)) if may_be_dead else []
            session.run(dialect.archive.copy_to_archive(ids))
            session.run(dialect.messages.delete(ids))
            forget_steps(session, ids)
            if dead:
                moves.untied(session, dialect.messages.drop(""), dead)
    return len(ids)
