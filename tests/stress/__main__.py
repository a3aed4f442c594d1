"""python -m tests.stress share|frozen …: see the package."""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final, NoReturn

from tests.stress.cgroups import CPU, FREEZER, Group

if TYPE_CHECKING:
    from types import FrameType

EXIT_NOT_HERE: Final = 69
"""There are no control groups here, or they aren't ours: EX_UNAVAILABLE of sysexits.h."""


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, _leave)
    try:
        return _share(options) if options.how == "share" else _frozen(options)
    except OSError as error:
        print(f"tests.stress: no control group could be made here; it needs Linux and root: {error}", file=sys.stderr)
        return EXIT_NOT_HERE


def _share(options: argparse.Namespace) -> int:
    with Group(CPU) as group:
        group.limit(options.percent)
        code = group.start(options.command).wait()
        print(f"=== {options.percent:g} % of a core: wanted more in {group.throttled()} periods of 0.1 s", flush=True)
    return code


def _frozen(options: argparse.Namespace) -> int:
    times = 0
    with Group(FREEZER) as group:
        process = group.start(options.command)
        while (code := _ended(process, options.every * random.uniform(0.5, 1.5))) is None:
            group.freeze()
            time.sleep(options.seconds)
            group.thaw()
            times += 1
        print(f"=== frozen {times} times for {options.seconds:g} s", flush=True)
    return code


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", allow_abbrev=False)
    ways = parser.add_subparsers(dest="how", required=True)
    share = ways.add_parser("share", help="with a share of one core")
    share.add_argument("percent", type=float)
    frozen = ways.add_parser("frozen", help="frozen now and then")
    frozen.add_argument("seconds", type=float, help="how long")
    frozen.add_argument("every", type=float, help="seconds between two of them, on average")
    for way in (share, frozen):
        way.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command:
        parser.error("which command?")
    return options


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
