"""Plays one order: lets one actor at a time go on by one statement, and knows who can't because of another's lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from tests.stepper.actor import PATIENCE, Actor, State
from tests.stepper.order import Move, Order, written
from tests.stepper.scene import Ended, Scene
from tests.stepper.sessions import WriteLock, waiting_sessions

_FIRST_POLL, _LATER_POLLS = 0.003, 0.02
"""Seconds for which a statement may run before the server is asked whether it waits, and between two such questions."""
_WIDTH = 150


@dataclass(frozen=True, slots=True)
class Point:
    """A point of an order at which something else could have been decided."""

    move: Move
    can: tuple[str, ...]
    """Who could have taken a step: it neither waits for a lock nor has ended."""
    alive: tuple[str, ...]
    current: str
    """Who took the step before; '' before the first."""
    preemptions: int
    """How often, before this point, somebody else went on although the current one could have."""
    deaths: int

    def cost(self, move: Move) -> int:
        """Return how many preemptions this move would have been: 0 or 1."""
        return int(self.current in self.can and move.actor != self.current)

    def others(self) -> Iterator[Move]:
        """Yield what could have been decided instead."""
        yield from (move for name in self.can if (move := Move(name)) != self.move)
        yield from (move for name in self.alive if (move := Move(name, dies=True)) != self.move)


@dataclass(slots=True)
class Played:
    """An order that was played."""

    points: list[Point] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    """What was sent, in words, for people."""
    waited: set[str] = field(default_factory=set)
    strayed: bool = False
    """Whether the order asked for a step that could not be taken, so that it went on by itself from there."""

    @property
    def order(self) -> Order:
        """Return what was decided, from the first step to the last."""
        return tuple(point.move for point in self.points)

    def __str__(self) -> str:
        return "\n".join(f"  {number:>3} {step}" for number, step in enumerate(self.steps, 1))


class CannotPlay(Exception):
    """An order that comes to no end, or that asks for a step that can't be taken."""


class Stage:
    """The actors' threads and connections, for any number of orders."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._actors: dict[str, Actor] = {}
        self._write_lock = WriteLock()
        self._played = Played()
        self._waiting: set[int] = set()
        """The sessions that waited when the server was last asked."""

    def play(self, scene: Scene, order: Order, *, steps: int, is_strict: bool) -> tuple[Played, Ended]:
        """Play an order, and after its last move whatever needs no preemption.

        ``is_strict``: an order that asks for a step that can't be taken raises CannotPlay.
        """
        self._played = played = Played()
        self._begin(scene)
        moves, current = list(order), ""
        preemptions = deaths = 0
        while alive := self._who_is_alive():
            can = self._who_can()
            if len(played.points) == steps:
                raise CannotPlay(f"it did not end within {steps} steps:\n{played}")
            if not can:
                raise CannotPlay(f"nobody can go on; {self._states()}\n{played}")
            move = Move(current if current in can else can[0])
            if moves:
                wanted = moves.pop(0)
                if wanted.actor in (alive if wanted.dies else can):
                    move = wanted
                elif is_strict:
                    raise CannotPlay(self._refused(wanted))
                else:
                    played.strayed, moves = True, []
            point = Point(move, can, alive, current, preemptions, deaths)
            played.points.append(point)
            preemptions, deaths = preemptions + point.cost(move), deaths + move.dies
            self._take(move)
            current = move.actor
        results = {name: self._actors[name].result for name in scene.actors}
        return played, Ended(results, frozenset(played.waited))

    def _begin(self, scene: Scene) -> None:
        """Let each actor come to its first statement, one after the other."""
        for name, work in scene.actors.items():
            if name not in self._actors:
                self._actors[name] = Actor(name, self._changed)
            self._actors[name].start(work)
            self._settle()

    def _refused(self, wanted: Move) -> str:
        what = f"{written([wanted])!r} as step {len(self._played.points) + 1}"
        return f"the order asks for {what}, which can't be; {self._states()}\n{self._played}"

    def _take(self, move: Move) -> None:
        actor = self._actors[move.actor]
        self._played.steps.append(f"{move.actor:<10} {'DIES before ' if move.dies else ''}{_brief(actor.step)}")
        if move.dies:
            actor.kill()
        else:
            actor.go()
        self._settle()
        if actor.state is State.SENDING:
            self._played.waited.add(actor.name)
            self._played.steps[-1] += "   [waits for a lock]"

    def _settle(self) -> None:
        """Return when each actor has stopped, ended, or waits for a lock of one that has stopped."""
        end = time.monotonic() + PATIENCE
        pause = 0.0 if self._sending() <= self._waiting else _FIRST_POLL
        while True:
            stops = self._stops()
            sending = self._sending()
            if not sending:
                return
            with self._changed:
                if self._changed.wait_for(partial(self._has_changed_since, stops), pause):
                    continue
            pause, self._waiting = _LATER_POLLS, waiting_sessions(sending)
            if not self._has_changed_since(stops) and self._waiting == sending and self._who_can():
                return
            if time.monotonic() > end:
                raise CannotPlay(
                    f"nobody reached a statement within {PATIENCE:.0f} s; {self._states()}\n{self._played}"
                )

    def _sending(self) -> set[int]:
        return {actor.session for actor in self._actors.values() if actor.state is State.SENDING}

    def _stops(self) -> int:
        return sum(actor.stops for actor in self._actors.values())

    def _has_changed_since(self, stops: int) -> bool:
        return self._stops() != stops

    def _who_can(self) -> tuple[str, ...]:
        stopped = [actor for actor in self._actors.values() if actor.state is State.STOPPED]
        if not stopped or all(actor.is_reading or actor.in_transaction for actor in stopped):
            return tuple(actor.name for actor in stopped)
        is_held = self._write_lock.is_held()
        return tuple(actor.name for actor in stopped if not is_held or actor.is_reading or actor.in_transaction)

    def _who_is_alive(self) -> tuple[str, ...]:
        return tuple(actor.name for actor in self._actors.values() if actor.state is not State.ENDED)

    def _states(self) -> str:
        states = [
            f"{actor.name} {'has stopped before' if actor.state is State.STOPPED else 'is at'}: {_brief(actor.step)}"
            for actor in self._actors.values()
            if actor.state is not State.ENDED
        ]
        return "; ".join(states)

    def close(self) -> None:
        """End the threads and their connections, also those of an order that was broken off."""
        for actor in self._actors.values():
            if actor.state is not State.ENDED:
                actor.kill()
        for actor in self._actors.values():
            actor.close()
        self._write_lock.close()


def _brief(text: str) -> str:
    """Leave out the middle of a long statement; what tells one from another is at its ends."""
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH // 2]} … {text[-_WIDTH // 2 :]}"
