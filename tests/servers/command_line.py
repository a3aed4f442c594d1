"""What the command lines of servers and of planted bugs share."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType
from typing import NoReturn

from tests.servers.suite import DATABASES


def databases(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(DATABASES):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: a database is one of {', '.join(DATABASES)}")
    return names


def leave(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a second one must not cut the first one's tidying short
    sys.exit(128 + number)
