"""``manage.py queue_torture``: let real senders and workers die on this database, and count what was lost."""

from __future__ import annotations

import math
import secrets
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections import Counter
from dataclasses import asdict
from typing import Final

from django.conf import settings
from django.core.management.base import CommandError
from django.db import Error, connections
from django.utils.translation import gettext as _

from django_dbqueue import checks
from django_dbqueue.checks.answers import is_in_memory
from django_dbqueue.management.common_options import Options, unreadable, whole
from django_dbqueue.management.console import (
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EXIT_WRONG,
    ConsoleCommand,
    stop_signals,
)
from django_dbqueue.management.torture_report import as_text
from django_dbqueue.models import Message, Worker
from django_dbqueue.models.fields import DbNow
from django_dbqueue.models.worker_row import ALIVE_WITHIN, beating
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.testing.torture import rack
from django_dbqueue.testing.torture.faults import FAULTS, SESSION
from django_dbqueue.testing.torture.scratch import Scratch

_LONGEST: Final = 24 * 60
"""Minutes."""


class Command(ConsoleCommand):
    """Run faults against this database, in scratch queues that are gone at the end.

    Exit codes: 0 nothing was lost; 1 something was, or it could not run; 2 wrong options, or a database that looks like
    production, without --yes; 130 interrupted. Whatever the code, no row and no process of the run is left.
    """

    help = "Let senders and workers die in scratch queues on this database, and report what was lost: nothing."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--minutes", type=_minutes, default=1.0, help="how long faults happen (default: 1)")
        parser.add_argument(
            "--faults",
            type=_faults,
            default=FAULTS,
            help=f"which ones, separated by commas (default: all): {', '.join(FAULTS)}",
        )
        parser.add_argument("--seed", type=whole(0, 2**31), help="repeats the plan of an earlier run's faults")
        parser.add_argument(
            "--clean-up",
            metavar="NAME",
            type=_scratch,
            help="run nothing; delete the scratch queues of a run that was killed, whose name it printed",
        )
        parser.add_argument("--yes", action="store_true", help="run although the database looks like production")

    def act(self, session: DjangoSession, options: Options) -> None:
        alias = session.using
        _check_database(alias)
        if options["clean_up"]:
            self._clean_up(alias, options["clean_up"], as_json=options["json"])
            return
        if signs := [] if options["yes"] else _signs_of_production(alias):
            raise CommandError(
                _("This looks like production: %(signs)s. Nothing was done; to run it all the same, add --yes.")
                % {"signs": "; ".join(signs)},
                returncode=EXIT_USAGE,
            )
        left_out = self._left_out(alias, options["faults"])
        order = rack.TortureOrder(
            alias=alias,
            seconds=60 * options["minutes"],
            kinds=tuple(kind for kind in options["faults"] if kind not in left_out),
            seed=secrets.randbelow(1_000_000) if options["seed"] is None else options["seed"],
        )
        began = time.monotonic()
        result = self._run(order)
        document = {
            "database": alias,
            "vendor": connections[alias].display_name,
            "seed": order.seed,
            "seconds": round(time.monotonic() - began, 1),
            "injected": {kind: result.injected[kind] for kind in order.kinds if kind in result.injected},
            "missed": dict(result.missed),
            "left_out": left_out,
            "counts": asdict(result.reckoning),
            "ok": result.reckoning.is_good,
        }
        self.write(document, as_json=options["json"], text=as_text(order, result, left_out))
        if not result.reckoning.is_good:
            self.stdout.flush()
            sys.exit(EXIT_WRONG)

    def _clean_up(self, alias: str, scratch: Scratch, *, as_json: bool) -> None:
        if scratch.workers(alias).filter(beating(DbNow())).exists():
            raise CommandError(
                _("Nothing was deleted: workers of %(name)s were alive in the last %(seconds)d seconds.")
                % {"name": scratch.name, "seconds": ALIVE_WITHIN.seconds},
                returncode=EXIT_WRONG,
            )
        scratch.clean_up(alias)
        self.write(
            {"cleaned_up": scratch.name},
            as_json=as_json,
            text=_("The scratch queues %(name)s.* are gone.") % {"name": scratch.name},
        )

    def _left_out(self, alias: str, kinds: tuple[str, ...]) -> dict[str, str]:
        reason = rack.why_no_session_can_be_ended(alias) if SESSION in kinds else None
        if reason is None:
            return {}
        if kinds == (SESSION,):
            raise CommandError(
                _("No session can be ended here (%(reason)s), and --faults names nothing else.") % {"reason": reason},
                returncode=EXIT_USAGE,
            )
        return {SESSION: reason}

    def _run(self, order: rack.TortureOrder) -> rack.TortureResult:
        with stop_signals() as stop:
            try:
                return rack.run(order, must_stop=lambda: stop.received > 0, announce=self._announce)
            except rack.Interrupted:
                self.stderr.write(_("Interrupted; the scratch queues are gone."))
                sys.exit(EXIT_INTERRUPTED)
            except rack.NothingRan as error:
                raise CommandError(
                    _("No message was ever handled. The processes printed:\n%(words)s") % {"words": error},
                    returncode=EXIT_WRONG,
                ) from error

    def _announce(self, scratch: str) -> None:
        self.stderr.write(_("Running in the scratch queues %(name)s.*") % {"name": scratch})


def _check_database(alias: str) -> None:
    connection = connections[alias]
    if is_in_memory(connection):
        raise CommandError(
            _("The database %(alias)r lives in this process's memory, which no other process can share: use a file.")
            % {"alias": alias},
            returncode=EXIT_USAGE,
        )
    if errors := checks.blocking_errors(alias):
        raise CommandError("\n".join(str(error) for error in errors), returncode=EXIT_WRONG)
    try:
        Message.objects.using(alias).order_by("pk").values_list("pk").first()
    except Error as error:
        raise unreadable(alias, error) from error


def _signs_of_production(alias: str) -> list[str]:
    signs = [] if settings.DEBUG else [_("DEBUG is off")]
    alive = Worker.objects.using(alias).filter(beating(DbNow())).count()
    if alive:
        signs.append(_("workers are serving its queues (%(count)d processes)") % {"count": alive})
    return signs


def _scratch(text: str) -> Scratch:
    try:
        return Scratch.named(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _minutes(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.05 <= number <= _LONGEST:
        raise ArgumentTypeError(f"{text!r} is not a number of minutes from 0.05 to {_LONGEST:,}")
    return number


def _faults(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in FAULTS]:
        raise ArgumentTypeError(f"there is no fault {unknown[0]!r}; there are: {', '.join(FAULTS)}")
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise ArgumentTypeError(f"{repeated[0]!r} is given twice")
    if not names:
        raise ArgumentTypeError(f"names no fault; there are: {', '.join(FAULTS)}")
    return tuple(name for name in FAULTS if name in names)
