"""Message ids as ranges of consecutive ones, in memory and as the text that the ledger keeps.

A claim of 20,000 messages that were enqueued together is a dozen characters. Each range holds only ids of the claim, so
a statement over a range locks no other row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from django_dbqueue.databases import Statement
from django_dbqueue.databases.session import Session
from django_dbqueue.streams import stream_messages_sql

Ranges = tuple[tuple[int, int], ...]
"""First and last ids, ascending, without overlaps."""

MAX_ID: Final = 2**63 - 1
MOST_NAMED: Final = 900
"""Ids per statement: MariaDB turns lists of a thousand and more into a subquery."""
WORTH_A_RANGE: Final = 50
"""Consecutive ids that get a statement of their own; shorter runs are named one by one."""
MOST_IN_RANGE: Final = 5_000


def ranges_of(ids: Iterable[int]) -> Ranges:
    """Return ids, each named once, as ranges."""
    found: list[list[int]] = []
    for number in sorted(ids):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return tuple((first, last) for first, last in found)


def to_text(ranges: Ranges) -> str:
    """Return ranges as the ledger keeps them."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def from_text(text: str) -> Ranges:
    """Read what ``to_text`` wrote; ids are positive."""
    pairs = (part.partition("-") for part in text.split(",") if part)
    return tuple((int(first), int(last or first)) for first, _, last in pairs)


def size_of(ranges: Ranges) -> int:
    """Count the ids."""
    return sum(last - first + 1 for first, last in ranges)


def holds(ranges: Ranges, number: int) -> bool:
    """Return whether an id is in one of the ranges."""
    place = bisect_right(ranges, (number, MAX_ID)) - 1
    return place >= 0 and number <= ranges[place][1]


def cut(ranges: Ranges, parts: int) -> list[Ranges]:
    """Split into at most ``parts`` parts, in order, whose sizes differ by at most one; none is empty."""
    total = size_of(ranges)
    parts = min(parts, total)
    sizes = [total // parts + (place < total % parts) for place in range(parts)] if parts else []
    rest = list(reversed(ranges))
    pieces: list[Ranges] = []
    for size in sizes:
        piece: list[tuple[int, int]] = []
        while size:
            first, last = rest.pop()
            count = min(size, last - first + 1)
            piece.append((first, first + count - 1))
            size -= count
            if first + count <= last:
                rest.append((first + count, last))
        pieces.append(tuple(piece))
    return pieces


def common(one: Ranges, other: Ranges) -> Ranges:
    """Return the ids that are in both."""
    found: list[tuple[int, int]] = []
    here, there = 0, 0
    while here < len(one) and there < len(other):
        first, last = max(one[here][0], other[there][0]), min(one[here][1], other[there][1])
        if first <= last:
            found.append((first, last))
        if one[here][1] < other[there][1]:
            here += 1
        else:
            there += 1
    return tuple(found)


def steps(ranges: Ranges, *, most: int = MOST_IN_RANGE) -> Iterator[tuple[Statement, int]]:
    """Split ranges into what one statement takes: each with how many ids it covers."""
    few: list[int] = []
    for first, last in ranges:
        if last - first + 1 < min(WORTH_A_RANGE, most):
            few.extend(range(first, last + 1))
        else:
            for start in range(first, last + 1, most):
                end = min(start + most - 1, last)
                yield stream_messages_sql.between(start, end), end - start + 1
        while len(few) >= min(MOST_NAMED, most):
            head, few = few[: min(MOST_NAMED, most)], few[min(MOST_NAMED, most) :]
            yield stream_messages_sql.named(head), len(head)
    if few:
        yield stream_messages_sql.named(few), len(few)


def run_over(session: Session, ranges: Ranges, statement: Callable[..., Statement]) -> int:
    """Run ``statement(among)`` over ranges; return how many rows they matched in total."""
    return sum(session.run(statement(among)) for among, _ in steps(ranges))
