"""Explores the orders of the statements of several actors, up to a bound, and checks each.

It is stateless: each order is played from the beginning, on rows made anew. Orders come by their number of preemptions
(somebody else goes on although the one before could have), fewest first, and none has more than the bound: iterative
context bounding, as in CHESS (M. Musuvathi and S. Qadeer, "Iterative context bounding for systematic testing of
multithreaded programs", PLDI 2007). Under such a bound the number of orders grows polynomially with the steps, and each
of the nine unknown bugs that its authors found needed two preemptions at most.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from django.db import connection

from django_dbqueue.databases import retries
from django_dbqueue.sessions import django_session
from tests.stepper.emptying import empty_tables
from tests.stepper.order import Order, parse, written
from tests.stepper.scene import Ended, Scene
from tests.stepper.sessions import prepare_session
from tests.stepper.stage import CannotPlay, Played, Stage

STEPS = 200


@dataclass(slots=True)
class Explored:
    """What was explored."""

    orders: int = 0
    seconds: float = 0.0
    steps: int = 0
    """Of the longest order."""
    strayed: int = 0
    """Orders that could not be repeated up to the point at which they were to differ."""
    retries: int = 0
    """Of transactions that a server undid, or that SQLite did not let begin."""
    waits: int = 0
    """Orders in which somebody waited for a lock."""
    deaths: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    """What happened, as the check put it, and in how many orders."""

    def __str__(self) -> str:
        what = ", ".join(f"{count} × {name}" for name, count in self.seen.most_common())
        return (
            f"{self.orders} orders of up to {self.steps} steps in {self.seconds:.1f} s, {self.waits} with a wait for a "
            f"lock, {self.deaths} with a death, {self.retries} retries, {self.strayed} strayed: {what}"
        )


class OrderFailed(AssertionError):
    """An order that breaks what the check asserts."""


def explore(
    world: Callable[[], Scene],
    *,
    preemptions: int = 2,
    deaths: int = 0,
    together: bool = False,
    order: str | None = None,
) -> Explored:
    """Play every order within the bounds; raise OrderFailed, with the order, at the first that fails.

    ``world`` is called before each order, in empty tables, and makes its rows and its Scene. ``preemptions``: see
    above. ``deaths``: how many of the actors may be killed, each before any of its statements. ``together``: what the
    package sends in one round trip is one step; by default its statements are sent, and stop, one by one. ``order``:
    play this one only.
    """
    explored, stage = Explored(), Stage()
    began = time.monotonic()
    try:
        prepare_session(connection)
        with _by_steps(explored, together=together):
            if order is not None:
                _play(stage, world, parse(order), explored, is_strict=True)
                return explored
            frontier: list[tuple[int, int, Order]] = [(0, 0, ())]
            numbers = itertools.count(1)
            while frontier:
                _, _, prefix = heapq.heappop(frontier)
                played = _play(stage, world, prefix, explored, is_strict=False)
                for cost, other in _others(played, len(prefix), preemptions, deaths):
                    heapq.heappush(frontier, (cost, next(numbers), other))
    finally:
        stage.close()
        connection.close()
        explored.seconds = time.monotonic() - began
    return explored


@contextmanager
def _by_steps(explored: Explored, *, together: bool) -> Iterator[None]:
    def retry_at_once(_: float) -> None:
        explored.retries += 1

    with pytest.MonkeyPatch.context() as patch:
        # The scheduler decides who goes first, so that a retry has nothing to wait for
        patch.setattr(retries, "time", SimpleNamespace(sleep=retry_at_once, monotonic=time.monotonic))
        if not together:
            patch.setattr(django_session, "takes_many", lambda _: False)
        yield


def _others(played: Played, start: int, preemptions: int, deaths: int) -> Iterator[tuple[int, Order]]:
    """Yield the orders that differ from this one first at or after ``start``, and what they cost up to there."""
    order = played.order
    for place, point in enumerate(played.points[start:], start):
        for move in point.others():
            preempted, died = point.preemptions + point.cost(move), point.deaths + move.dies
            if preempted <= preemptions and died <= deaths:
                yield preempted + died, (*order[:place], move)


def _play(stage: Stage, world: Callable[[], Scene], order: Order, explored: Explored, *, is_strict: bool) -> Played:
    empty_tables()
    scene = world()
    try:
        played, ended = stage.play(scene, order, steps=STEPS, is_strict=is_strict)
    except CannotPlay as error:
        raise OrderFailed(f"{error}\n{_repeat(order)}") from None
    try:
        seen = _checked(scene, ended)
    except Exception as error:
        raise OrderFailed(_described(error, ended, played)) from error
    explored.orders += 1
    explored.steps = max(explored.steps, len(played.points))
    explored.strayed += played.strayed
    explored.waits += bool(ended.waited)
    explored.deaths += any(move.dies for move in played.order)
    explored.seen[seen] += 1
    return played


def _checked(scene: Scene, ended: Ended) -> str:
    for name, result in ended.results.items():
        if isinstance(result, BaseException) and not isinstance(result, scene.may_raise):
            raise AssertionError(f"{name} raised {result!r}") from result
    return scene.check(ended)


def _described(error: Exception, ended: Ended, played: Played) -> str:
    results = "".join(f"\n  {name}: {result!r}" for name, result in ended.results.items())
    what = f"{type(error).__name__}: {error}"
    return f"{what}\nin this order:\n{played}\nwith these results:{results}\n{_repeat(played.order)}"


def _repeat(order: Order) -> str:
    return f"repeat it: explore(…, order={written(order)!r}), or name the test and add --order='{written(order)}'"
