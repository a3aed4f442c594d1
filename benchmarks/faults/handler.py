"""What every contestant's handler does while faults happen: some work, and one row in a table of its own transaction.

It runs under each peer's own interpreter, and so imports nothing but the driver that all of them have.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, Final

DIRECTORY: Final = "DBQUEUE_BENCH_FAULTS"
"""The environment variable that says that faults happen, and names the directory where failures are remembered."""
FAILS: Final = "DBQUEUE_BENCH_FAILS"
"""Set where handlers are to fail: each tenth message, at its first delivery."""
KILLED: Final = "DBQUEUE_BENCH_KILLED"
"""Set where handlers are to be killed: see `wait_to_be_killed`."""
WANTED, VICTIM = "wanted", "victim"
"""The file that asks for a handler to kill, and the one that answers: the message's number, and the process."""
TABLE: Final = "CREATE TABLE effects (id bigserial PRIMARY KEY, number bigint NOT NULL)"
INSERT: Final = "INSERT INTO effects (number) VALUES (%s)"
WORK: Final = 0.05
"""Seconds before the row is written, and after it was committed."""
EACH: Final = 10
FOR_EVER: Final = 3600.0
"""Seconds, longer than any run."""


class PlannedFailure(Exception):
    """The handler fails because it is its turn."""


class _Own(threading.local):
    session: Any = None
    pid = 0


_own = _Own()


def handle(number: int) -> None:
    """Work, with a session of one's own."""
    wait_to_be_killed(number)
    time.sleep(WORK)
    if _own.session is None or _own.session.closed or _own.pid != os.getpid():
        import psycopg  # here, since the tests read this module where only SQLite is tested

        place = os.environ["DBQUEUE_BENCH_URL"].replace("postgres://", "postgresql://", 1)
        _own.session, _own.pid = psycopg.connect(place), os.getpid()
    with _own.session.transaction():
        _own.session.execute(INSERT, (number,))
        fail_if_planned(number)
    time.sleep(WORK)


def fail_if_planned(number: int) -> None:
    """Raise at the first delivery of each tenth message, where handlers are to fail."""
    if FAILS in os.environ and number % EACH == 0 and _write_once(f"{number}", ""):
        raise PlannedFailure(f"message {number} fails once")


def wait_to_be_killed(number: int) -> None:
    """Wait, if a handler is wanted and this one is the first to begin; when its message is run again, say so."""
    if KILLED not in os.environ:
        return
    place = Path(os.environ[DIRECTORY])
    held = place / f"held-{number}"
    if held.exists():
        _write_once(f"again-{number}", f"{time.time()}")
        return
    try:
        (place / WANTED).rename(held)
    except FileNotFoundError:
        return
    _write_once(VICTIM, f"{number} {os.getpid()}")
    time.sleep(FOR_EVER)


def _write_once(name: str, words: str) -> bool:
    """Whether there was no such file yet, so that this one wrote it, whole."""
    place = Path(os.environ[DIRECTORY])
    own = place / f"{name}.{os.getpid()}.{threading.get_ident()}"
    own.write_text(words)
    try:
        os.link(own, place / name)
    except FileExistsError:
        return False
    finally:
        own.unlink()
    return True
