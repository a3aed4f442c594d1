"""An order as it is written down: ``holder*3 rescuer rescuer:dies`` says who takes the next step, or dies before it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

_DIES = ":dies"


class Move(NamedTuple):
    """What the scheduler decides at a point of an order."""

    actor: str
    dies: bool = False
    """Its session ends instead of its next statement, as when its process dies."""


Order = tuple[Move, ...]


def parse(text: str) -> Order:
    """Read an order; ValueError says what in it can't be read."""
    moves: list[Move] = []
    for word in text.split():
        name, _, times = word.partition("*")
        if times and not times.isdecimal():
            raise ValueError(f"{word!r} is not a move: write an actor, actor*times, or actor{_DIES}")
        moves += [Move(name.removesuffix(_DIES), name.endswith(_DIES))] * int(times or 1)
    return tuple(moves)


def written(moves: Iterable[Move]) -> str:
    """Write an order so that ``parse`` reads it."""
    words = []
    for move, same in groupby(moves):
        times = len(list(same))
        words.append(f"{move.actor}{_DIES if move.dies else ''}{f'*{times}' if times > 1 else ''}")
    return " ".join(words)
