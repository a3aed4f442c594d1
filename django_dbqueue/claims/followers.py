"""Followers: those of a group that a claim takes along with its first, so that one worker runs them one by one.

They run under the claim's token and need no ticket of their own: while they are held, tickets of their lane go to them
before anybody else (``lanes.heads.followers_of``). So two workers never run a group that has one ticket, whatever is
sent, or comes back, in the meantime.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from django_dbqueue.claims.claim_rows import Claimed, ClaimSource, lock_parked, take_parked
from django_dbqueue.databases.retries import StartAgain
from django_dbqueue.databases.statement import MAX_IDS, Row, chunks
from django_dbqueue.lanes import lanes_sql

LINES_AT_ONCE: Final = 100
"""Lines that one statement reads; SQLite allows 500 parts of a UNION."""

Followers = dict[int, list[Claimed]]
"""What was taken along, in order, by the id of the head."""


def take_along(source: ClaimSource, heads: Iterable[Claimed], *, each: int, most: int, width: int) -> Followers:
    """Take up to ``each`` of the line behind each head, and ``most`` of all, in the transaction that took the heads.

    A line is taken as far as its messages could begin now: up to one that isn't due yet, that must run alone, or that
    somebody has locked. A suspect takes none along: it runs alone. ``width`` is the queue's ``group_limit``.
    """
    leads = {head.lane: head.claim.id for head in heads if head.lane is not None and not head.crashes}
    each = min(each, most // max(1, len(leads)))
    if each < 1 or not leads:
        return {}
    lines = _lines(source, list(leads), each, width)
    locked: dict[int, Row] = {}
    for ids in chunks((one for line in lines.values() for one in line), MAX_IDS):
        locked |= {row[0]: row for row in lock_parked(source, ids)}
    going = {lane: list(takewhile(locked.__contains__, line)) for lane, line in lines.items()}
    claimed: dict[int, Claimed] = {}
    for ids in chunks((one for line in going.values() for one in line), MAX_IDS):
        claimed |= {each.claim.id: each for each in take_parked(source, [locked[one] for one in ids])}
    places = [(lane, one) for lane, line in going.items() for one in line]
    if places and source.session.run(lanes_sql.follow(source.session.server, places)) != len(places):
        raise StartAgain  # one was moved to another lane, and waits there
    return {leads[lane]: [claimed[one] for one in line] for lane, line in going.items() if line}


def _lines(source: ClaimSource, lanes: Sequence[int], each: int, width: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for part in chunks(lanes, LINES_AT_ONCE):
        for lane, message_id in source.session.fetch(lanes_sql.behind(source.session.server, part, each, width)):
            found.setdefault(lane, []).append(message_id)
    return {lane: sorted(line) for lane, line in found.items()}
