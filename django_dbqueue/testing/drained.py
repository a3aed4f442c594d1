"""What a run of consumers has done: each delivery, and what became of its message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from django_dbqueue.models import Message

Outcome = Literal["done", "waiting", "dead", "lost"]


class EndlessRun(AssertionError):
    """A run reached its limit, and there was more to do."""


@dataclass(frozen=True, slots=True)
class Handled:
    """One delivery, and what became of its message.

    ``outcome``: *done* · *waiting*, to be delivered again · *dead* · *lost*: while it was handled, another claim took
    it, or it was dropped or removed. ``message`` is the row as it was then. ``error`` is what ended the handler, if
    anything did.
    """

    message: Message
    outcome: Outcome
    error: BaseException | None = None


class Drained(tuple[Handled, ...]):
    """All deliveries of a run, in order."""

    __slots__ = ()

    @property
    def done(self) -> list[Message]:
        """The messages that were done."""
        return self._with("done")

    @property
    def waiting(self) -> list[Message]:
        """The messages that will be delivered again, once for each time."""
        return self._with("waiting")

    @property
    def dead(self) -> list[Message]:
        """The messages that went to the dead letters."""
        return self._with("dead")

    @property
    def errors(self) -> list[BaseException]:
        """What handlers raised, including ``Retry`` and ``Reject``."""
        return [each.error for each in self if each.error is not None]

    def _with(self, outcome: Outcome) -> list[Message]:
        return [each.message for each in self if each.outcome == outcome]
