"""What a process of a run is told when it is started: one argument, in JSON. And how it begins."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import signal
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import django
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

_SET_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG, prctl(2)


@dataclass(frozen=True, slots=True)
class Errand:
    """Which run a process belongs to, and what it does there."""

    alias: str
    scratch: str
    history: str
    seed: str
    starter: int
    """The command's process id."""
    fails: bool = False
    """Whether messages are sent whose handlers fail."""
    rolls_back: bool = False
    """Whether some of a sender's transactions are rolled back."""

    @property
    def as_argument(self) -> str:
        """As the process reads it."""
        return json.dumps(asdict(self))


def begin() -> Errand:
    """Read the errand, set Django up, and mark each session that this process and its children will have."""
    errand = Errand(**json.loads(sys.argv[1]))
    _end_with_the_starter()
    if os.getppid() != errand.starter:
        sys.exit("The command that started this process is gone.")  # before the kernel knew what to do then
    os.register_at_fork(after_in_child=_end_with_the_starter)  # a worker's child may be frozen when its parent ends
    django.setup()

    from django_dbqueue.testing.torture.event_log import History
    from django_dbqueue.testing.torture.scratch import Scratch

    Scratch(errand.scratch).settle_in()
    connection_created.connect(partial(_mark, errand.alias, History(Path(errand.history))), weak=False)
    return errand


def _end_with_the_starter() -> None:
    """Where the kernel can (Linux), let it end this process when the command is gone, however it ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))


def _mark(alias: str, history: Any, connection: BaseDatabaseWrapper, **_: object) -> None:
    """Let the session take a lock by which the command finds it: never anybody else's is ended."""
    if connection.alias != alias:
        return
    from django_dbqueue.databases import server_of

    sessions, number = server_of(connection).sessions, None
    if sessions is not None:
        number = secrets.randbits(62)
        take = sessions.take_lock(number)
        with connection.cursor() as cursor:
            cursor.execute(take.sql, take.params)
    history.note("session", lock=number)
