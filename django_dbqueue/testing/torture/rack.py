"""The rack: runs senders and workers, lets faults happen, waits until all is done, and reckons."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.db import Error, connections

from django_dbqueue.models import Line, Message, Ticket
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.statuses import DONE
from django_dbqueue.testing.torture import faults
from django_dbqueue.testing.torture.crew import Crew, end_session
from django_dbqueue.testing.torture.errand import Errand
from django_dbqueue.testing.torture.event_log import BEGIN, History
from django_dbqueue.testing.torture.reckoning import Reckoning, Row, reckon
from django_dbqueue.testing.torture.scratch import LIMIT, Scratch

QUIET_FOR: Final = 60.0
"""Seconds without anything done after which what is left is called hung."""
STARTS_WITHIN: Final = 60.0
"""Seconds in which the first message must have begun."""
_TICK: Final = 0.1
_CHECK_EVERY: Final = 0.5
_LOG_SHOWN: Final = 2000


class NothingRan(Exception):
    """No message began at all; the text is what the processes printed."""


class Interrupted(Exception):
    """The run was told to stop."""


@dataclass(frozen=True, slots=True)
class TortureOrder:
    """What is to be run."""

    alias: str
    seconds: float
    kinds: tuple[str, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class TortureResult:
    """What was done, and what came of it."""

    injected: Counter[str]
    missed: Counter[str]
    """Faults that found nothing to happen to."""
    reckoning: Reckoning


def why_no_session_can_be_ended(alias: str) -> str | None:
    """Try it on a session of our own; return why it can't be done, or None."""
    sessions = session_of(alias).server.sessions
    if sessions is None:
        return "SQLite has no sessions"
    other = connections[alias].copy()
    try:
        me = sessions.me()
        with other.cursor() as cursor:
            cursor.execute(me.sql, me.params)
            [conn_id, *_] = cursor.fetchone()
        end_session(alias, int(conn_id))
    except Error as error:
        return " ".join(str(error).split())
    finally:
        try:
            other.close()
        except Error:
            other.connection = None
    return None


def run(order: TortureOrder, *, must_stop: Callable[[], bool], announce: Callable[[str], None]) -> TortureResult:
    """Run it, and leave nothing. Raises NothingRan, and Interrupted once ``must_stop`` is true."""
    scratch = Scratch.drawn()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dbqueue-torture-")))
        history = History(directory / "history")
        history.create()
        errand = Errand(
            alias=order.alias,
            scratch=scratch.name,
            history=str(directory / "history"),
            seed=str(order.seed),
            starter=os.getpid(),
            fails=faults.FAIL in order.kinds,
            rolls_back=faults.ROLLBACK in order.kinds,
        )
        stack.callback(scratch.clean_up, order.alias)
        crew = Crew(errand, history, directory)
        stack.callback(crew.end)
        rack = _Rack(order, scratch, history, crew, directory, must_stop)
        announce(scratch.name)
        return rack.run()


class _Rack:
    def __init__(
        self,
        order: TortureOrder,
        scratch: Scratch,
        history: History,
        crew: Crew,
        directory: Path,
        must_stop: Callable[[], bool],
    ) -> None:
        self._order = order
        self._scratch = scratch
        self._history = history
        self._crew = crew
        self._directory = directory
        self._must_stop = must_stop
        self._messages = Message.objects.using(order.alias).filter(queue__in=scratch.worked)

    def run(self) -> TortureResult:
        self._crew.start()
        self._wait_for_the_first()
        injected, missed = self._inject(
            faults.plan(self._order.seed, seconds=self._order.seconds, kinds=self._order.kinds)
        )
        self._crew.thaw_all()
        self._crew.stop_senders()
        self._wait_until_done()
        self._crew.stop_workers()
        return TortureResult(injected, missed, self._reckoned())

    def _wait_for_the_first(self) -> None:
        until = time.monotonic() + STARTS_WITHIN
        while not any(note["step"] == BEGIN for note in self._history.all()):
            self._turn()
            if time.monotonic() > until or len(self._crew.unasked) > 3:
                raise NothingRan(self._words())

    def _inject(self, plan: Sequence[faults.Fault]) -> tuple[Counter[str], Counter[str]]:
        injected: Counter[str] = Counter()
        missed: Counter[str] = Counter()
        began = time.monotonic()
        for fault in plan:
            self._wait_until(began + fault.at)
            (injected if self._crew.strike(fault) else missed)[fault.kind] += 1
        self._wait_until(began + self._order.seconds)
        return injected, missed

    def _wait_until(self, then: float) -> None:
        while time.monotonic() < then:
            self._turn()

    def _turn(self) -> None:
        if self._must_stop():
            raise Interrupted
        self._crew.maintain()
        time.sleep(_TICK)

    def _wait_until_done(self) -> None:
        left, since = -1, time.monotonic()
        while (now := self._left()) and time.monotonic() - since < QUIET_FOR:
            if now != left:
                left, since = now, time.monotonic()
            self._wait_until(time.monotonic() + _CHECK_EVERY)

    def _left(self) -> int:
        return self._messages.exclude(status=DONE).count()

    def _reckoned(self) -> Reckoning:
        limits = {self._scratch.ordered: 1, self._scratch.limited: LIMIT}
        found = reckon(self._history.all(), self._rows(), self._effects(), limits=limits)
        lanes = self._scratch.lanes
        for model in (Line, Ticket):
            for row in model._default_manager.using(self._order.alias).filter(lane__in=lanes):
                found.wrong("left_behind", str(row))
        for which in self._crew.unasked:
            found.wrong("unasked", which)
        found.stuck = self._crew.stuck
        return found

    def _rows(self) -> list[Row]:
        return [
            Row(row.payload["n"], row.queue, row.group, row.stage) for row in self._messages.order_by("pk").iterator()
        ]

    def _effects(self) -> list[str]:
        rows = Message.objects.using(self._order.alias).filter(queue=self._scratch.effects).order_by("pk")
        return [row.payload["n"] for row in rows.iterator()]

    def _words(self) -> str:
        logs = sorted(self._directory.glob("*.log"))
        return "\n".join(text[-_LOG_SHOWN:] for log in logs if (text := log.read_text(errors="replace").strip()))
