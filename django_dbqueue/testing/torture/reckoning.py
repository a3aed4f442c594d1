"""The reckoning of a run: from its history and the rows at its end, what was lost, doubled, or in the wrong order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from django_dbqueue.states.table import Stage
from django_dbqueue.testing.torture.event_log import BEGIN, END, ROLLED_BACK, SENDING, SENT, Note

WRONG: Final = (
    "lost",
    "torn",
    "unsent",
    "without_effect",
    "doubled",
    "out_of_order",
    "over_limit",
    "hung",
    "left_behind",
    "unasked",
    "stuck",
)
"""The counts that must be 0."""
_SHOWN: Final = 5
"""Examples that are kept of each."""


class Row(NamedTuple):
    """A message of a scratch queue, at the end."""

    number: str
    queue: str
    group: str | None
    stage: Stage


@dataclass(slots=True)
class Reckoning:
    """The counts of a run. Those of ``WRONG`` are broken promises."""

    transactions: int = 0
    sent: int = 0
    """Messages of transactions whose commit was confirmed."""
    rolled_back: int = 0
    """Messages of transactions that were rolled back."""
    unknown: int = 0
    """Messages of transactions that nobody confirmed, because the sender or its session was ended."""
    stored: int = 0
    done: int = 0
    deliveries: int = 0
    failed: int = 0
    """Deliveries whose handler failed, on purpose or with its session."""
    cut_off: int = 0
    """Deliveries that began and whose handler never ended."""
    lost: int = 0
    """Sent, and not there, or dead."""
    torn: int = 0
    """Transactions of which a part is there."""
    unsent: int = 0
    """There, though rolled back or never sent."""
    without_effect: int = 0
    """Done, without the handler's effect."""
    doubled: int = 0
    """Whose effect was committed twice, or stored twice."""
    out_of_order: int = 0
    """Whose effect was committed after that of a message that its group should have run later."""
    over_limit: int = 0
    """Begun while the group had as many as it may have."""
    hung: int = 0
    """Not done when all had been quiet for long."""
    left_behind: int = 0
    """Rows of groups that outlived their messages."""
    unasked: int = 0
    """Workers and senders that ended without being told to."""
    stuck: int = 0
    """Workers that did not stop when they were told to."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """Some of what was counted as wrong, by the name of the count."""

    @property
    def is_good(self) -> bool:
        """Whether no promise was broken."""
        return not any(getattr(self, name) for name in WRONG)

    def wrong(self, name: str, example: str) -> None:
        """Count a broken promise."""
        setattr(self, name, getattr(self, name) + 1)
        examples = self.examples.setdefault(name, [])
        if len(examples) < _SHOWN:
            examples.append(example)


def reckon(
    notes: Iterable[Note], rows: Iterable[Row], effects: Iterable[str], *, limits: Mapping[str, int]
) -> Reckoning:
    """Compare what was written down with what is there. ``effects``: numbers, in the order of their commits.

    ``limits``: how many of a group may run at once, by queue; where that is one, groups have an order too.
    """
    written, there = list(notes), list(rows)
    found = Reckoning()
    by_number = _stored(found, there)
    _sent(found, written, by_number)
    done_at = _effects(found, effects, by_number)
    _order(found, done_at, by_number, {queue for queue, limit in limits.items() if limit == 1})
    _deliveries(found, written, limits)
    return found


def _stored(found: Reckoning, rows: list[Row]) -> dict[str, Row]:
    by_number: dict[str, Row] = {}
    for row in rows:
        if row.number in by_number:
            found.wrong("doubled", f"{row.number} is stored twice")
        by_number[row.number] = row
        found.stored += 1
        found.done += row.stage is Stage.FINISHED
        if row.stage is Stage.DEAD:
            found.wrong("lost", f"{row.number} is dead")
        elif row.stage is not Stage.FINISHED:
            found.wrong("hung", f"{row.number} is {row.stage}")
    return by_number


def _sent(found: Reckoning, notes: list[Note], by_number: Mapping[str, Row]) -> None:
    ends = {note["numbers"][0]: note["step"] for note in notes if note["step"] in (SENT, ROLLED_BACK)}
    known: set[str] = set()
    for note in notes:
        if note["step"] != SENDING:
            continue
        numbers = note["numbers"]
        known.update(numbers)
        there = [number for number in numbers if number in by_number]
        found.transactions += 1
        end = ends.get(numbers[0])
        if end == SENT:
            found.sent += len(numbers)
            for number in sorted(set(numbers) - set(there)):
                found.wrong("lost", f"{number} was committed, and is not there")
        elif end == ROLLED_BACK:
            found.rolled_back += len(numbers)
            for number in there:
                found.wrong("unsent", f"{number} was rolled back, and is there")
        else:
            found.unknown += len(numbers)
            if there and len(there) < len(numbers):
                found.wrong("torn", f"of {', '.join(numbers)} only {', '.join(there)} are there")
    for number in sorted(set(by_number) - known):
        found.wrong("unsent", f"{number} was never sent")


def _effects(found: Reckoning, effects: Iterable[str], by_number: Mapping[str, Row]) -> dict[str, int]:
    done_at: dict[str, int] = {}
    for at, number in enumerate(effects):
        if number in done_at:
            found.wrong("doubled", f"the effect of {number} was committed twice")
            continue
        done_at[number] = at
        if number not in by_number or by_number[number].stage is not Stage.FINISHED:
            found.wrong("doubled", f"{number} has an effect, and is not done: it would run again")
    for number, row in by_number.items():
        if row.stage is Stage.FINISHED and number not in done_at:
            found.wrong("without_effect", f"{number} is done, and has no effect")
    return done_at


def _order(found: Reckoning, done_at: Mapping[str, int], by_number: Mapping[str, Row], ordered: set[str]) -> None:
    """What one sender sent to a group, one after the other, must have been done in that order."""
    latest: dict[tuple[str, str, str], int] = {}
    for number in sorted(done_at, key=done_at.__getitem__):
        row = by_number.get(number)
        if row is None or row.group is None or row.queue not in ordered:
            continue
        sender, _, turn = number.rpartition("/")
        lane = (row.queue, row.group, sender)
        if int(turn) < latest.get(lane, 0):
            found.wrong("out_of_order", f"{number} was done after {sender}/{latest[lane]}, in group {row.group}")
        latest[lane] = max(int(turn), latest.get(lane, 0))


def _deliveries(found: Reckoning, notes: list[Note], limits: Mapping[str, int]) -> None:
    reads: Counter[str] = Counter()
    running: dict[tuple[str, str], set[str]] = defaultdict(set)
    lane_of: dict[str, tuple[str, str]] = {}
    begun: set[tuple[str, int]] = set()
    for note in notes:
        if note["step"] not in (BEGIN, END):
            continue
        number = note["n"]
        if note["step"] == BEGIN:
            found.deliveries += 1
            begun.add((number, note["reads"]))
            if note["group"] is not None:
                lane_of[number] = (note["queue"], note["group"])
        else:
            begun.discard((number, note["reads"]))
            found.failed += note["failed"]
        if number not in lane_of or note["reads"] < reads[number]:
            continue  # a worker that doesn't know yet that its claim is another's; its transaction can't commit
        reads[number] = note["reads"]
        open_ones, limit = running[lane_of[number]], limits[lane_of[number][0]]
        if note["step"] == END:
            open_ones.discard(number)
            continue
        open_ones.add(number)
        if len(open_ones) > limit:
            found.wrong("over_limit", f"{', '.join(sorted(open_ones))} ran at once, in group {note['group']}")
    found.cut_off = len(begun)
