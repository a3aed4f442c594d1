"""What the commands behind `bin/bench` have in common: their options, and what they say."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.race import Outcome


def parser(what: str, *, contests: Sequence[str], databases: Sequence[str]) -> argparse.ArgumentParser:
    """Understands `--only`, `--database`, `--rounds`, `--quick` and `--json`; `what` is bin/bench's own word."""
    made = argparse.ArgumentParser(prog=f"bin/bench --{what}", allow_abbrev=False)
    made.add_argument("--only", type=names(contests), default=list(contests), metavar="CONTEST[,CONTEST]")
    made.add_argument("--database", type=names(databases), default=list(databases), metavar="DB[,DB]")
    made.add_argument("--rounds", type=positive, help="rounds that count; default 5, quick 2")
    made.add_argument("--quick", action="store_true", help="only checks that it runs: too few rows to draw conclusions")
    made.add_argument("--json", type=Path, metavar="FILE", help="write every round to this file")
    return made


def names(known: Sequence[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        if unknown := set(text.split(",")) - set(known):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; available: {', '.join(known)}")
        return text.split(",")

    return read


def positive(text: str) -> int:
    if not text.replace("_", "").isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def rounds(options: argparse.Namespace) -> int:
    """How many rounds count."""
    return options.rounds or (2 if options.quick else 5)


def unwind_when_stopped() -> None:
    """A stop signal unwinds the stack, and every server and process with it."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def show(options: argparse.Namespace, found: Mapping[str, tuple[str, Sequence[Outcome]]]) -> None:
    for name, (server, outcomes) in found.items():
        print(f"\n{name} {server}\n\n{report.table(outcomes)}\n\n{report.verdicts(outcomes)}")
    if options.quick:
        print("\nThis was --quick: too few rows and rounds to draw conclusions.")


def announce(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
