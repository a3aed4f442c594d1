"""What the commands of operators have in common: how they end, how they ask, and how they speak."""

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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db import Error
from django.utils.translation import gettext as _

from django_dbqueue.exceptions import DBQueueError, InvalidMessage, UnsupportedDatabase
from django_dbqueue.management.options import chosen_alias, unreadable, wrong_settings_told
from django_dbqueue.worker.shutdown import StopSignals

EXIT_WRONG: Final = 1
"""The database can't be read, or something is not as it was told or as it should be."""
EXIT_USAGE: Final = 2
"""Wrong options or input; nothing was changed."""
EXIT_NOTHING: Final = 3
"""There is nothing of what was asked for."""
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141
"""Who read the output went away; what a shell says of a program that SIGPIPE ended."""
LONGEST_NAME: Final = 150
"""Characters of who did it, as ``Queue.paused_by`` keeps it."""


class TerminalCommand(BaseCommand):
    """Ends by a code where it is interrupted or its output goes nowhere: never by a traceback for what people do."""

    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Print what the terminal's encoding lacks as an escape."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        super().run_from_argv(argv)

    def execute(self, *args: Any, **said: Any) -> str | None:
        try:
            with wrong_settings_told():
                told = super().execute(*args, **said)
            self.stdout.flush()
        except KeyboardInterrupt:
            self.stderr.write(_("Interrupted."))
            sys.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            _write_no_more()
            sys.exit(EXIT_PIPE)
        except OSError as error:
            _write_no_more()
            raise CommandError(_("Can't read or write: %(error)s") % {"error": error}) from error
        return told


class ConsoleCommand(TerminalCommand, ABC):
    """Takes --json and --database, and says in a sentence what went wrong."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        self.add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON for programs")
        parser.add_argument("--database", help="alias of the database (default: DBQUEUE['DATABASE'], or the router's)")

    @abstractmethod
    def add_options(self, parser: ArgumentParser) -> None:
        """Add what only this command takes."""

    @abstractmethod
    def act(self, alias: str, said: dict[str, Any]) -> None:
        """Do it. InvalidMessage, CommandError and errors of the database may pass through."""

    def handle(self, *_args: Any, **said: Any) -> None:
        alias = ""
        try:
            alias = chosen_alias(said["database"])
            self.act(alias, said)
        except InvalidMessage as error:
            raise CommandError(str(error), returncode=EXIT_USAGE) from error
        except (DBQueueError, UnsupportedDatabase) as error:
            raise CommandError(str(error), returncode=EXIT_WRONG) from error
        except Error as error:
            raise unreadable(alias, error) from error

    def say(self, document: dict[str, Any], *, as_json: bool, text: str) -> None:
        """Print a result, for programs or for people."""
        self.stdout.write(json.dumps(document) if as_json else text)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask on a terminal, unless it was said already; CommandError where nobody can be asked, or says no."""
        if yes:
            return
        if sys.stdin is None or not sys.stdin.isatty():
            raise CommandError(
                _("Nobody can be asked here (standard input is no terminal), and nothing was changed: add --yes."),
                returncode=EXIT_USAGE,
            )
        self.stderr.write(f"{question} [y/N] ", ending="")
        self.stderr.flush()
        answer = sys.stdin.readline()
        if answer.strip().lower() not in {"y", "yes", _("y"), _("yes")}:
            raise CommandError(_("Nothing was changed."), returncode=EXIT_WRONG)


def _write_no_more() -> None:
    """Keep Python from flushing what is left once more at its end, and from complaining then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Count stop signals, so that the work can stop between two steps; in another thread than the first none come."""
    stop = StopSignals()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    with stop:
        yield stop


def add_by(parser: ArgumentParser) -> None:
    """Add the option that says who does it."""
    parser.add_argument("--by", metavar="NAME", help="who does it (default: the account and the host)")


def operator(said: str | None = None) -> str:
    """Return who is at the terminal: the name that was said, or the account (behind sudo, too) and the host."""
    if said is not None:
        if not said.strip() or len(said) > LONGEST_NAME:
            raise InvalidMessage(_("--by takes a name of 1 to %(most)d characters.") % {"most": LONGEST_NAME})
        return said
    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container's account often has a number only
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"[:LONGEST_NAME]


def refuse_unknown(names: Iterable[str], known: Iterable[str]) -> None:
    """Say by CommandError which of the names no queue has, and which one may have been meant."""
    there = set(known)
    for name in names:
        if name not in there:
            text = _("There is no queue %(queue)r: it has no message, no worker and no row.") % {"queue": name}
            raise CommandError(with_hint(text, name, there), returncode=EXIT_NOTHING)


def with_hint(text: str, name: str, known: Iterable[str]) -> str:
    """Return the text, with the name of a queue that may have been meant, where no queue has this one."""
    there = sorted(known)
    close = [] if name in there else get_close_matches(name, there, n=1)
    return text + (" " + _("Did you mean %(queue)r?") % {"queue": close[0]} if close else "")


def plain(text: object) -> str:
    """Return what others wrote as one line that can't steer the terminal."""
    return re.sub(r"[^ -~\u00a0-\U0010ffff]|[\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]", _escaped, str(text))


def _escaped(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode()


def iso(moment: datetime | None) -> str | None:
    """Return a moment in UTC, as programs read it."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Iterable[int] = (0,)) -> list[str]:
    """Return lines of aligned columns; numbers stand right, but for the columns of ``left``."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    stand = set(left)
    return [
        "  ".join(
            cell.ljust(width) if column in stand else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
