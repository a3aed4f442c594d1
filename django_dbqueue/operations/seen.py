"""What somebody saw of a message: unless it is still so when its row is locked, nothing is done to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from django_dbqueue.typed_values import MAX_ID


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as it was read; at least one of these values is changed by every claim, move and update."""

    id: int
    token: int | None = None
    queue: str | None = None
    """None: it was named by its id alone, whatever has become of it."""
    stage: str = ""
    due_at: str = ""
    """'', like the stage, if it was not read."""

    @classmethod
    def of(cls, message: Any) -> Self:
        """Return all that can be seen of it."""
        due: datetime = message.due_at
        return cls(message.pk, message.claim.token, message.queue, message.stage, f"{due:%Y%m%d%H%M%S%f}")

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return what a form field carries, all of it; None if it isn't one of ours."""
        try:
            number, token, stage, due, queue = text.split(":", 4)
            seen = cls(int(number), int(token) if token else None, queue, stage, due)
        except ValueError:
            return None
        return seen if 0 < seen.id <= MAX_ID else None

    def __str__(self) -> str:
        return f"{self.id}:{'' if self.token is None else self.token}:{self.stage}:{self.due_at}:{self.queue}"

    def is_still(self, message: Any) -> bool:
        """Return whether the row is as it was seen."""
        if self.queue is None:
            return True
        return self == (Seen.of(message) if self.stage else Seen(message.pk, message.claim.token, message.queue))
