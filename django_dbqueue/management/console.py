"""What the operators' commands have in common: how they end, ask and print."""

from __future__ import annotations

import getpass
import io
import json
import os
import re
import socket
import sys
import threading
from abc import ABC, abstractmethod
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from django.core.management.base import BaseCommand, CommandError
from django.db import Error
from django.utils.translation import gettext as _

from django_dbqueue.consumers.near_queues import did_you_mean
from django_dbqueue.exceptions import DBQueueError, InvalidMessage, UnsupportedDatabase
from django_dbqueue.management.common_options import (
    Options,
    chosen_alias,
    one_line,
    refuse_autocommit_off,
    settings_errors,
    unreadable,
)
from django_dbqueue.management.terminal_progress import shown_progress
from django_dbqueue.management.terminal_width import columns_of, padded
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.worker.late_signals import ends_with_its_command, hear_no_more
from django_dbqueue.worker.shutdown import StopSignals

Step = TypeVar("Step")

EXIT_WRONG: Final = 1
"""The database can't be read, or something is not as stated or as it should be."""
EXIT_USAGE: Final = 2
"""Wrong options or input; nothing was changed."""
EXIT_NOTHING: Final = 3
"""Nothing matches what was asked for."""
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141
"""The reader of the output went away; a shell reports this code for a program that SIGPIPE ended."""
LONGEST_NAME: Final = 150
"""Characters of the operator's name, as ``Queue.paused_by`` keeps it."""


class StepsEnd(NamedTuple):
    """How work in steps ended."""

    interrupted: bool
    """Whether a signal stopped it between two of them."""
    error: Error | None

    @property
    def document(self) -> dict[str, object]:
        """The same for programs."""
        return {"interrupted": self.interrupted, "error": None if self.error is None else one_line(self.error)}


class TerminalCommand(BaseCommand):
    """A command that exits with a code if interrupted or its output has no reader: never with a traceback."""

    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Print characters that the terminal's encoding lacks as escapes."""
        ends_with_its_command()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        super().run_from_argv(argv)

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            with settings_errors():
                output = super().execute(*args, **options)
            self.stdout.flush()
        except KeyboardInterrupt:
            hear_no_more()
            self.stderr.write(_("Interrupted."))
            sys.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            _write_no_more()
            sys.exit(EXIT_PIPE)
        except OSError as error:
            _write_no_more()
            raise CommandError(_("Can't read or write: %(error)s") % {"error": error}) from error
        return output


class ConsoleCommand(TerminalCommand, ABC):
    """A command with --json and --database that reports in a sentence what went wrong."""

    only_reads: ClassVar[bool] = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        self.add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON for programs")
        parser.add_argument("--database", help="alias of the database (default: DBQUEUE['DATABASE'], or the router's)")

    @abstractmethod
    def add_options(self, parser: ArgumentParser) -> None:
        """Add the options that only this command takes."""

    @abstractmethod
    def act(self, session: DjangoSession, options: Options) -> None:
        """Do it. InvalidMessage, CommandError and database errors may pass through."""

    def handle(self, *_args: object, **options: Any) -> None:
        alias = ""
        try:
            alias = chosen_alias(options["database"])
            if not self.only_reads:
                refuse_autocommit_off(alias)
            self.act(session_of(alias), options)
        except InvalidMessage as error:
            raise CommandError(str(error), returncode=EXIT_USAGE) from error
        except (DBQueueError, UnsupportedDatabase) as error:
            raise CommandError(str(error), returncode=EXIT_WRONG) from error
        except Error as error:
            raise unreadable(alias, error) from error

    def write(self, document: dict[str, object], *, as_json: bool, text: str) -> None:
        """Print a result, for programs or for people."""
        self.stdout.write(json.dumps(document) if as_json else text)

    def take(self, steps: Iterable[Step], count: Callable[[Step], int], *, what: str, total: int | None) -> StepsEnd:
        """Take steps, each a commit, until a stop signal; ``count`` adds one, and returns how many are moved by then.

        A database error is raised only if nothing was moved, so that what was can be reported; ``leave`` raises it.
        """
        moved, error = 0, None
        with stop_signals() as stop, shown_progress() as progress:
            try:
                for step in steps:
                    moved = count(step)
                    progress.show(what, moved, total)
                    if stop.received:
                        break
            except Error as raised:
                if not moved:
                    raise
                error = raised
        return StepsEnd(bool(stop.received), error)

    def leave(self, end: StepsEnd, *, is_wrong: bool = False) -> None:
        """Exit, after the report, with the code that says how the steps ended."""
        self.stdout.flush()
        if end.error is not None:
            text = _("The database went away: %(error)s") % {"error": one_line(end.error)}
            raise CommandError(text, returncode=EXIT_WRONG) from end.error
        if end.interrupted:
            sys.exit(EXIT_INTERRUPTED)
        if is_wrong:
            sys.exit(EXIT_WRONG)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask on a terminal, unless confirmed already; CommandError if nobody can be asked, or the answer is no."""
        if yes:
            return
        if sys.stdin is None or not sys.stdin.isatty():
            raise CommandError(
                _(
                    "Nothing was changed: confirmation needs a terminal, and standard input is not one. Add --yes to "
                    "skip it."
                ),
                returncode=EXIT_USAGE,
            )
        self.stderr.write(f"{question} [y/N] ", ending="")
        self.stderr.flush()
        answer = sys.stdin.readline()
        if answer.strip().lower() not in {"y", "yes", _("y"), _("yes")}:
            raise CommandError(_("Nothing was changed."), returncode=EXIT_WRONG)


def _write_no_more() -> None:
    """Keep Python from flushing the remaining output at its end, and from complaining about it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Count stop signals, so that the work can stop between two steps; outside the main thread there are none."""
    stop = StopSignals()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    with stop:
        yield stop


def add_by(parser: ArgumentParser) -> None:
    """Add the option that names the operator."""
    parser.add_argument("--by", metavar="NAME", help="who is doing this (default: the account and the host)")


def operator(given: str | None = None) -> str:
    """Return who is at the terminal: the given name, or the account (behind sudo, too) and the host."""
    if given is not None:
        if not given.strip() or len(given) > LONGEST_NAME:
            raise InvalidMessage(_("--by takes a name of 1 to %(most)d characters.") % {"most": LONGEST_NAME})
        return given
    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container's account often has only a number
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"[:LONGEST_NAME]


def refuse_unknown(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise CommandError for names that no queue has, suggesting which one may have been meant."""
    there = set(known)
    for name in names:
        if name not in there:
            text = _("There is no queue %(queue)r: it has no messages, no worker and no queue row.") % {"queue": name}
            raise CommandError(text + did_you_mean(name, there), returncode=EXIT_NOTHING)


def plain(text: object) -> str:
    """Return what others wrote as one line that can't control the terminal."""
    return re.sub(r"[^ -~\u00a0-\U0010ffff]|[\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]", _escaped, str(text))


def _escaped(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode()


def iso(moment: datetime | None) -> str | None:
    """Return a moment in UTC, in the form programs read."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Iterable[int] = (0,)) -> list[str]:
    """Return lines of aligned columns; numbers are right-aligned, except in the columns of ``left``."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(columns_of(line[column]) for line in lines) for column in range(len(head))]
    stand = set(left)
    return [
        "  ".join(
            padded(cell, width, at_the_right=column not in stand)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
