"""Settings of a process that has not ended when its command has: first for its threads, then for what is to be done at
the end. Each time it says so, and waits for a file."""

from __future__ import annotations

import atexit
import os
import threading
import time
from pathlib import Path

from tests.settings import *  # noqa: F403


def _linger(why: str) -> None:
    print(f"lingers for {why}", flush=True)
    while not (Path(os.environ["DBQUEUE_TEST_LINGERS"]) / why).exists():
        time.sleep(0.01)


def _linger_after_the_command() -> None:
    threading.main_thread().join()
    _linger("threads")


threading.Thread(target=_linger_after_the_command, daemon=False).start()
atexit.register(_linger, "atexit")
