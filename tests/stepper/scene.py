"""What a model consists of: the actors, what they do, and what must hold after each order of their statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.stepper.actor import KILLED


@dataclass(frozen=True, slots=True)
class Ended:
    """How an order ended."""

    results: Mapping[str, Any]
    """What each actor returned, or the exception that it raised, or KILLED."""
    waited: frozenset[str]
    """The actors that waited for another's lock at least once; on SQLite none, since its writers begin later."""

    def __getitem__(self, actor: str) -> Any:
        return self.results[actor]

    def raised(self, actor: str, kind: type[BaseException]) -> bool:
        """Return whether the actor raised such an exception."""
        return isinstance(self.results[actor], kind)

    def was_killed(self, actor: str) -> bool:
        """Return whether the actor was killed; what it sent before may have been committed."""
        return self.results[actor] is KILLED


@dataclass(frozen=True, slots=True)
class Scene:
    """One order's actors, in the order in which they begin if nothing else is decided."""

    actors: Mapping[str, Callable[[], object]]
    """By name; each is run once, in a thread and a session of its own."""
    check: Callable[[Ended], str]
    """Asserts what must hold, and returns in a word or two what happened, for ``Explored.seen``."""
    may_raise: tuple[type[BaseException], ...] = ()
    """What an actor may raise; any other exception fails the order."""
