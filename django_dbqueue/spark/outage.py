"""A database that is away for a while: restarting, failing over, cut off, or without a free session.

Work that may run twice is retried, with jittered pauses that double up to five seconds, as a worker does. The option
``outage`` sets for how many seconds since the database last answered; 0 means not at all.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from django_dbqueue.exceptions import DatabaseAway, ReplicaBehind
from django_dbqueue.spark.connection import is_away, is_full
from django_dbqueue.spark.source_options import Options

Result = TypeVar("Result")

OPTION: Final = "outage"
SECONDS: Final = 60
MOST_SECONDS: Final = 7 * 86_400
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0

logger = logging.getLogger("django_dbqueue.spark")


def outage_of(options: Options) -> float:
    """Return for how many seconds to wait for a database that is away."""
    return float(options.whole(OPTION, SECONDS, least=0, most=MOST_SECONDS))


class Patience:
    """A timer of the seconds since a database went away; ``answered`` resets it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.answered()

    def answered(self) -> None:
        """Note that the database is back."""
        self._end: float | None = None
        self._pause = _FIRST_PAUSE

    def wait(self, error: Exception) -> None:
        """Sleep until the next try; raise the error if it is of another kind, DatabaseAway if time is up."""
        if not is_away(error) or (isinstance(error, DatabaseAway) and error.given_up):
            raise error
        now = time.monotonic()
        self._end = now + self.seconds if self._end is None else self._end
        if now >= self._end:
            away = DatabaseAway(
                f"{str(error).rstrip('.')}. It was retried for {self.seconds:g} seconds (the option {OPTION!r}). Try "
                "again when the database answers."
            )
            away.given_up = True
            raise away from error
        logger.warning("%s, retrying: %s", _what(error), error)
        time.sleep(min(random.uniform(0.5, 1.0) * self._pause, self._end - now))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def _what(error: Exception) -> str:
    if isinstance(error, ReplicaBehind):
        return "The replica is behind"
    return "The database has no session left" if is_full(error) else "The database is away"


def tried_on(work: Callable[[], Result], *, seconds: float) -> Result:
    """Run ``work``, which may run twice, again while the database is away."""
    patience = Patience(seconds)
    while True:
        began = time.monotonic()
        try:
            return work()
        except Exception as error:
            if time.monotonic() - began > seconds and not isinstance(error, DatabaseAway):
                patience.answered()  # the session that ended had lived for long
            patience.wait(error)
