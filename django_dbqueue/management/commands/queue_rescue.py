"""``manage.py queue_rescue``: return what dead workers hold to the queue, once or as a guardian process."""

from __future__ import annotations

import json
import logging
import time
from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime
from multiprocessing.connection import wait
from typing import Any, Final

from django.core.management.base import CommandError
from django.db import Error, reset_queries
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue import signals
from django_dbqueue.exceptions import UnsupportedDatabase
from django_dbqueue.liveness.dead_workers import RECHECK_AFTER, SETTLES, Guardian, blind_spots
from django_dbqueue.management.common_options import (
    chosen_alias,
    one_line,
    refuse_autocommit_off,
    seconds,
    unreadable,
)
from django_dbqueue.management.console import TerminalCommand
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.shutdown import StopSignals
from django_dbqueue.worker.thread_connections import discard, discard_all, do_without_pools

INTERVAL: Final = 0.5
SHORTEST_INTERVAL: Final = 0.1
WATCHES_AT_LEAST: Final = 1.5
"""Minimum seconds that a single run watches: by then, a living worker that holds messages has beaten."""
WATCHES_AT_MOST: Final = 5.0
SPOTS_EVERY: Final = 60.0
"""Seconds between checks for what the guardian can't see."""


def _interval(text: str) -> float:
    if seconds(text) < SHORTEST_INTERVAL:
        raise ArgumentTypeError(_("an interval below 0.1 seconds would keep the database busy all the time"))
    return float(text)


class Command(TerminalCommand):
    """Rescue messages whose lease has expired, or whose worker is proven gone.

    Exit codes: 0 checked, whether anything was rescued or not, or with --watch stopped by SIGTERM or SIGINT; 1 the
    database or the queue's tables can't be read; 2 wrong options; 4 --watch ended at once by a third signal; 130 a
    single run was interrupted; 141 the output has no reader any more. While watching, it waits for an outage to end.
    """

    help = "Rescue the messages of dead workers: those whose lease has expired, or whose worker's session is gone."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--watch", action="store_true", help="keep running until SIGTERM or SIGINT")
        parser.add_argument(
            "--interval", type=_interval, help=f"seconds between checks with --watch (default: {INTERVAL:g})"
        )
        parser.add_argument("--database", help="alias of the database (default: DBQUEUE['DATABASE'], or the router's)")
        parser.add_argument("--json", action="store_true", help="print one JSON object per line")

    def handle(self, *_args: object, **options: Any) -> None:
        if options["interval"] is not None and not options["watch"]:
            raise CommandError(_("--interval needs --watch: a single run checks only once."), returncode=2)
        self._json, self._rescued = options["json"], 0
        self._spots: list[str] = []
        self._alias = chosen_alias(options["database"])
        do_without_pools()
        self._guardian = Guardian(session_of(self._alias))
        package = logging.getLogger("django_dbqueue")
        if not package.handlers:  # what is logged is printed here already
            package.addHandler(logging.NullHandler())
        signals.message_rescued.connect(self._print_rescued)
        signals.message_died.connect(self._print_died)
        try:
            self._start()
            if options["watch"]:
                with StopSignals() as stop:
                    self._watch(stop, options["interval"] or INTERVAL)
            else:
                self._check_once()
        finally:
            signals.message_rescued.disconnect(self._print_rescued)
            signals.message_died.disconnect(self._print_died)
        self._print(
            "ended",
            ngettext("%(count)s message rescued.", "%(count)s messages rescued.", self._rescued)
            % {"count": self._rescued},
            rescued=self._rescued,
        )

    # -- looking ------------------------------------------------------------------------------------------

    def _start(self) -> None:
        refuse_autocommit_off(self._alias)
        try:
            Message.objects.using(self._alias).order_by("pk").values_list("pk").first()
            self._name_blind_spots()
        except UnsupportedDatabase as error:
            raise CommandError(str(error)) from error
        except Error as error:
            raise unreadable(self._alias, error) from error

    def _check_once(self) -> None:
        """Watch for as long as it takes to see who is dead by now."""
        began = time.monotonic()
        try:
            Message.objects.rescue(using=self._alias)
            self._guardian.check()
            while time.monotonic() - began < (WATCHES_AT_MOST if self._guardian.suspects else WATCHES_AT_LEAST):
                time.sleep(RECHECK_AFTER)
                self._guardian.check()
        except Error as error:
            raise CommandError(_("The database went away: %(error)s") % {"error": one_line(error)}) from error

    def _watch(self, stop: StopSignals, interval: float) -> None:
        self._print("watching", _("Watching database %(alias)s.") % {"alias": self._alias}, database=self._alias)
        rescue_at = 0.0
        spots_at = time.monotonic() + SPOTS_EVERY
        is_down = False
        while not stop.received:
            reset_queries()
            now = time.monotonic()
            try:
                if now >= rescue_at:
                    Message.objects.rescue(using=self._alias)
                    rescue_at = now + interval
                self._guardian.check()
                if is_down:
                    self._print("database back", _("The database answers again."))
                    spots_at = now + SETTLES
                    is_down = False
                if now >= spots_at:
                    self._name_blind_spots()
                    spots_at = now + SPOTS_EVERY
            except Error as error:
                if not is_down:
                    text = _("Database trouble, retrying: %(error)s") % {"error": one_line(error)}
                    self._print("database trouble", text)
                is_down = True
                discard(self._alias)
            wait([stop.fileno()], min(RECHECK_AFTER, interval) if self._guardian.suspects and not is_down else interval)
        discard_all()

    # -- speaking -----------------------------------------------------------------------------------------

    def _name_blind_spots(self) -> None:
        """Say what can't be seen, and what to do about it, if that has changed since the last time."""
        spots = blind_spots(session_of(self._alias))
        for spot in spots:
            if spot not in self._spots:
                self._print("blind", _("Blind spot: %(spot)s") % {"spot": spot})
        self._spots = spots

    def _print_rescued(self, *, queue: str, message_ids: list[int], evidence: str, **_kwargs: object) -> None:
        self._rescued += len(message_ids)
        text = ngettext(
            "%(count)s message of %(queue)s rescued (%(evidence)s): %(ids)s",
            "%(count)s messages of %(queue)s rescued (%(evidence)s): %(ids)s",
            len(message_ids),
        ) % {
            "count": len(message_ids),
            "queue": queue,
            "evidence": evidence,
            "ids": ", ".join(map(str, message_ids)),
        }
        self._print("rescued", text, queue=queue, message_ids=message_ids, evidence=evidence)

    def _print_died(self, *, queue: str, message_id: int, error: str, **_kwargs: object) -> None:
        text = _("Message %(id)s of %(queue)s is dead, because it has no reads left: %(error)s") % {
            "id": message_id,
            "queue": queue,
            "error": error,
        }
        self._print("died", text, queue=queue, message_id=message_id, error=error)

    def _print(self, event: str, text: str, **fields: object) -> None:
        moment = datetime.now(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds") + "Z"
        if self._json:
            text = json.dumps({"time": moment, "event": event, "text": text, **fields}, default=str)
            self.stdout.write(text)
        else:
            self.stdout.write(f"{moment} {text}")
        self.stdout.flush()
