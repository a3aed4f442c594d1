"""Giving back what a stream's claims hold: by hand, or because their lease is over and ``on_expired`` says requeue.

A claim is *freeing* first, which ends it for its stream at once, and *freed* when its messages are back; in between
they go back a part at a time, and whoever comes next goes on where a killed one stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django_dbqueue.databases import Change
from django_dbqueue.databases.streaming import FREED, FREEING, OPEN
from django_dbqueue.exceptions import InvalidPipeline, StreamBusy
from django_dbqueue.ledger.asking import Asking, move_parked
from django_dbqueue.ledger.ids import from_text, steps
from django_dbqueue.ledger.owning import is_running

PART: Final = 500
"""Messages that one transaction gives back."""
AT_ONCE: Final = 100
"""Claims in one look."""
LEASE_OVER: Final = "LeaseOver: the lease of claim {number} of stream {stream} ended, and nobody had acked it."
RELEASED: Final = "claim {number} of stream {stream} was released"


@dataclass(frozen=True, slots=True)
class Given:
    """Messages that went back: their queue, the claim, and of each its id, reads and reads allowed, as they stood."""

    queue: str
    stream: str
    number: int
    rows: list[tuple[int, int, int | None]]


def free_expired(connection: Asking, tell: Callable[[Given], None], *, limit: int) -> int:
    """Give back, charged and as a crash, what claims beyond their lease hold; return how many, ``limit`` or few more.

    Only of streams with ``on_expired=requeue``, and of claims that somebody has begun to give back. What another one
    is at work on is left to it.
    """
    freed = 0
    for stream, number, state in connection.fetch(connection.dialect.given_up(AT_ONCE)):
        is_over = state == FREEING or connection.outermost(partial(_give_up, connection, stream, number))
        if is_over and freed < limit:
            change = connection.dialect.rescue(LEASE_OVER.format(number=number, stream=stream))
            freed += _free(connection, stream, number, change, tell, limit - freed)
    return freed


def _give_up(connection: Asking, stream: str, number: int) -> bool:
    """End a claim for its stream, if its lease is still over, and nobody is at work on the stream this moment."""
    dialect = connection.dialect
    with connection.transaction():
        if not connection.fetch(dialect.lock_stream(stream, wait=False)):
            return False
        claim = connection.fetch(dialect.lock_claim(stream, number))[0]
        if claim[2] == OPEN and claim[7]:
            connection.run(dialect.end_claim(stream, number, FREEING))
            return True
    return False


def release_stream(connection: Asking, name: str, *, force: bool = False) -> int:
    """Give back, uncharged, all that a stream's claims hold, and end its run; return how many messages.

    StreamBusy while a query runs it, unless ``force`` says so: that query changes nothing from then on, and fails.
    What its last batch may have written to its sink already is delivered again.
    """
    dialect = connection.dialect
    if not connection.fetch(dialect.read_stream(name, 0, lock=False)):
        raise InvalidPipeline(f"There is no stream {name!r} in this database: the ledger knows those that ran once.")
    if not force and is_running(connection, name):
        raise StreamBusy(
            f"A query runs the stream {name!r}: stop it first. Its claims are alive, and would be delivered twice."
        )

    def give_up() -> list[int]:
        with connection.transaction():
            connection.fetch(dialect.lock_stream(name))
            connection.run(dialect.disown_stream(name))
            claims = [int(row[0]) for row in connection.fetch(dialect.open_claims(name))]
            for number in claims:
                connection.run(dialect.end_claim(name, number, FREEING))
        return claims

    freed = 0
    for number in connection.outermost(give_up):
        change = dialect.release(why=RELEASED.format(number=number, stream=name))
        freed += _free(connection, name, number, change, lambda _: None, 2**63)
    return freed


def forget_stream(connection: Asking, name: str) -> None:
    """Delete what the ledger knows of a stream that holds nothing and that nobody runs, so that its checkpoint ends."""
    dialect = connection.dialect
    if is_running(connection, name):
        raise StreamBusy(f"A query runs the stream {name!r}: stop it first.")

    def forget() -> None:
        with connection.transaction():
            rows = connection.fetch(dialect.lock_stream(name))
            if not rows:
                raise InvalidPipeline(f"There is no stream {name!r} in this database.")
            if connection.fetch(dialect.open_claims(name, limit=1)):
                raise InvalidPipeline(f"The stream {name!r} holds messages: release it first.")
            connection.run(dialect.forget_claims(name, int(rows[0][1]) + 1))
            connection.run(dialect.delete_stream(name))

    connection.outermost(forget)


def _free(
    connection: Asking, stream: str, number: int, change: Change, tell: Callable[[Given], None], limit: int
) -> int:
    """Give back what a freeing claim holds, a part at a time; it is freed when none is left."""
    dialect = connection.dialect
    queue, token, state, text, *_ = connection.fetch(dialect.lock_claim(stream, number))[0]
    if state != FREEING:
        return 0
    freed = 0
    for among, _size in steps(dialect, from_text(text), most=PART):
        rows = connection.outermost(partial(_give_back, connection, among, token, change))
        if rows:
            tell(Given(queue, stream, number, rows))
        freed += len(rows)
        if freed >= limit:
            return freed
    connection.outermost(lambda: connection.run(dialect.end_claim(stream, number, FREED)))
    return freed


def _give_back(connection: Asking, among: Any, token: int, change: Change) -> list[tuple[int, int, int | None]]:
    with connection.transaction():
        rows = connection.fetch(connection.dialect.parked(among, token))
        if rows:
            move_parked(connection, change, among, token)
    return [(int(row[0]), int(row[1]), row[2]) for row in rows]
