"""For workers that write down each start that they reserve by a group's rate, once that is committed."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from django.db import connections

from django_dbqueue.lanes import rates_sql
from tests.settings import *  # noqa: F403

_gate, _start = rates_sql.gate, rates_sql.start
_requested = threading.local()


def _noted_gate(server: Any, lanes: Any) -> Any:
    _requested.at = int(time.time() * 1_000_000)
    return _gate(server, lanes)


def _noted_start(server: Any, starts: Any) -> Any:
    lines = "".join(f"{lane} {moment} {_requested.at}\n" for lane, moment in starts)
    [connection] = [each for each in connections.all(initialized_only=True) if each.in_atomic_block]
    connection.on_commit(lambda: _note(lines))
    return _start(server, starts)


def _note(lines: str) -> None:
    with Path(os.environ["DBQUEUE_TEST_STARTS"]).open("a") as file:
        file.write(lines)


rates_sql.gate, rates_sql.start = _noted_gate, _noted_start
