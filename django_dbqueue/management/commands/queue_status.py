"""``manage.py queue_status``: how deep every queue is, whether it is open, and who serves it."""

from __future__ import annotations

import json
import shutil
import sys
from argparse import ArgumentParser
from dataclasses import dataclass
from datetime import datetime
from multiprocessing.connection import wait
from typing import Final

from django.core.management.base import CommandError
from django.db import Error, reset_queries
from django.utils.translation import gettext as _

from django_dbqueue.envelope import check_queue
from django_dbqueue.insight.overview import (
    TROUBLES,
    Overview,
    QueueOverview,
    known_queues,
    overview,
    troubles,
    unknown_queues,
    until,
)
from django_dbqueue.management.common_options import Options, one_line, seconds, whole
from django_dbqueue.management.console import EXIT_USAGE, EXIT_WRONG, ConsoleCommand, iso, plain, refuse_unknown, table
from django_dbqueue.management.flow_status import FlowsReport
from django_dbqueue.management.group_status import CAP_OF_GROUP, GroupsReport
from django_dbqueue.management.pause_command import document_of_pause
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.depths import CAP, UNFINISHED
from django_dbqueue.states.spans import span
from django_dbqueue.worker.shutdown import StopSignals
from django_dbqueue.worker.thread_connections import discard

INTERVAL: Final = 2.0
SHORTEST_INTERVAL: Final = 0.1
MAX_CAP: Final = 1_000_000
HOME: Final = "\x1b[H"
REST_OF_LINE: Final = "\x1b[K"
REST_OF_SCREEN: Final = "\x1b[J"
WHOLE_SCREEN: Final = "\x1b[2J"


@dataclass(frozen=True, slots=True)
class QueueReport:
    """The result of one look, with what is wrong in each queue."""

    seen: Overview
    cap: int
    wrong: dict[str, list[str]]

    @classmethod
    def of(cls, seen: Overview, *, cap: int, max_age: float | None, ignored: frozenset[str]) -> QueueReport:
        return cls(seen, cap, {each.name: troubles(each, seen.at, max_age, ignored) for each in seen.queues})

    @property
    def at(self) -> datetime:
        """Its moment by the database's clock."""
        return self.seen.at

    def document(self, alias: str) -> dict[str, object]:
        """Return it for programs."""
        queues = [_one(each, self.at, self.wrong[each.name]) for each in self.seen.queues]
        return {"database": alias, "at": iso(self.at), "cap": self.cap, "fine": self.is_fine, "queues": queues}

    def lines(self) -> list[str]:
        """Return it for people."""
        if not self.seen.queues:
            return [_("There are no queues yet: no messages, no workers and no queue rows.")]
        head = [_("QUEUE"), _("READY"), _("DELAYED"), _("WAITING"), _("RUNNING"), _("STUCK"), _("DEAD")]
        head += [_("OLDEST READY"), _("WORKERS"), _("CLAIMS")]
        return table(head, [_row(each, self.at) for each in self.seen.queues], left=(0, len(head) - 1))

    @property
    def is_fine(self) -> bool:
        """Whether nothing is wrong anywhere."""
        return not any(self.wrong.values())


class Command(ConsoleCommand):
    """Look, and change nothing.

    Exit codes: 0 shown, and with --check nothing is wrong; 1 with --check something is wrong, or the database or the
    queue's tables can't be read; 2 wrong options; 3 there is no such queue. --watch ends with 0 on SIGINT or SIGTERM,
    and waits for a database that is away.
    """

    only_reads = True
    help = "Show each queue: its depth, the age of its oldest ready message, whether it is paused, and its workers."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("queues", nargs="*", metavar="queue", help="the queues' names (default: all)")
        parser.add_argument(
            "--groups", action="store_true", help="show groups instead, those that need attention first"
        )
        parser.add_argument("--flows", action="store_true", help="show the newest flows instead, and how far they are")
        parser.add_argument("--watch", action="store_true", help="refresh until SIGINT or SIGTERM")
        parser.add_argument(
            "--interval", type=seconds, help=f"seconds between refreshes with --watch (default: {INTERVAL:g})"
        )
        parser.add_argument("--check", action="store_true", help="exit with 1 if something is wrong, and report what")
        parser.add_argument("--ignore", help=f"problems that --check ignores, of {','.join(TROUBLES)}")
        parser.add_argument("--max-age", type=seconds, help="seconds that a ready message may wait (default: no limit)")
        parser.add_argument(
            "--cap",
            type=whole(1, MAX_CAP),
            help=f"stop counting at this number (default: {CAP:,}; of each group: {CAP_OF_GROUP:,})",
        )

    def act(self, session: DjangoSession, options: Options) -> None:
        self._ignored = _ignored(options)
        self._names = [check_queue(name) for name in dict.fromkeys(options["queues"])] or None
        if unknown := unknown_queues(session, self._names or ()):
            refuse_unknown(unknown, known_queues(session))
        if options["watch"]:
            self._watch(session, options)
            return
        report = self._report(session, options)
        if options["json"]:
            self.stdout.write(json.dumps(report.document(session.using)))
        elif not options["check"]:  # what is fine is nothing to mail about, for cron
            self.stdout.write("\n".join(report.lines()))
        if isinstance(report, GroupsReport | FlowsReport) or not options["check"] or report.is_fine:
            return
        for name, wrong in report.wrong.items():
            if wrong and not options["json"]:
                self.stderr.write(f"{name}: {', '.join(wrong)}")
        self.stdout.flush()
        sys.exit(EXIT_WRONG)

    def _report(self, session: DjangoSession, options: Options) -> QueueReport | GroupsReport | FlowsReport:
        if options["flows"]:
            return FlowsReport.of(session)
        if options["groups"]:
            return GroupsReport.of(session, self._names, cap=options["cap"] or CAP_OF_GROUP)
        cap = options["cap"] or CAP
        seen = overview(session, self._names, cap=cap)
        return QueueReport.of(seen, cap=cap, max_age=options["max_age"], ignored=self._ignored)

    # -- again and again ----------------------------------------------------------------------------------

    def _watch(self, session: DjangoSession, options: Options) -> None:
        """Show each look in place of the last one; for programs and pipes, one after the other."""
        interval = INTERVAL if options["interval"] is None else options["interval"]
        in_place = self.stdout.isatty() and not options["json"]
        if in_place:
            self.stdout.write(WHOLE_SCREEN, ending="")
        with StopSignals() as stop:
            while not stop.received:
                reset_queries()
                try:
                    report = self._report(session, options)
                except Error as error:
                    discard(session.using)
                    lines = [_("Database trouble, retrying: %(error)s") % {"error": one_line(error)}]
                    document: dict[str, object] = {"database": session.using, "error": one_line(error)}
                else:
                    lines = [f"{report.at:%Y-%m-%d %H:%M:%SZ}", *report.lines()]
                    document = report.document(session.using)
                if in_place:
                    self._redraw(lines)
                else:
                    self.stdout.write(json.dumps(document) if options["json"] else "\n".join([*lines, ""]))
                self.stdout.flush()
                wait([stop.fileno()], interval)

    def _redraw(self, lines: list[str]) -> None:
        size = shutil.get_terminal_size()
        if len(lines) > size.lines - 1:
            hidden = len(lines) - (size.lines - 2)
            lines = [*lines[: size.lines - 2], _("… and %(count)d more") % {"count": hidden}]
        drawn = "".join(f"{line[: size.columns]}{REST_OF_LINE}\n" for line in lines)
        self.stdout.write(f"{HOME}{drawn}{REST_OF_SCREEN}", ending="")


def _ignored(options: Options) -> frozenset[str]:
    if options["watch"] and options["check"]:
        raise CommandError(_("--check reports once and exits: leave out --watch."), returncode=EXIT_USAGE)
    if options["groups"] and (options["check"] or options["max_age"] is not None):
        raise CommandError(_("--check and --max-age are about queues: leave out --groups."), returncode=EXIT_USAGE)
    of_queues = options["queues"] or options["groups"] or options["check"]
    if options["flows"] and (of_queues or options["max_age"] is not None or options["cap"] is not None):
        raise CommandError(
            _("--flows shows the newest flows of all queues: leave out names, --groups, --check, --max-age and --cap."),
            returncode=EXIT_USAGE,
        )
    if options["interval"] is not None and not options["watch"]:
        raise CommandError(
            _("--interval needs --watch: without it, the queues are shown only once."), returncode=EXIT_USAGE
        )
    if options["interval"] is not None and options["interval"] < SHORTEST_INTERVAL:
        raise CommandError(
            _("an interval below 0.1 seconds would keep the database busy all the time"), returncode=EXIT_USAGE
        )
    if options["ignore"] is not None and not options["check"]:
        raise CommandError(_("--ignore needs --check."), returncode=EXIT_USAGE)
    names = frozenset(name.strip() for name in (options["ignore"] or "").split(",") if name.strip())
    for name in sorted(names - set(TROUBLES)):
        raise CommandError(
            _("--ignore accepts %(known)s, not %(name)r.") % {"known": ", ".join(TROUBLES), "name": name},
            returncode=EXIT_USAGE,
        )
    return names


# -- showing ----------------------------------------------------------------------------------------------


def _one(each: QueueOverview, now: datetime, wrong: list[str]) -> dict[str, object]:
    waits = None if each.oldest_ready is None else max(0.0, (now - each.oldest_ready).total_seconds())
    return {
        "queue": each.name,
        **{state: int(each.counts[state]) for state in UNFINISHED},
        "capped": [state for state in UNFINISHED if each.counts[state].more],
        "oldest_ready_at": iso(each.oldest_ready),
        "oldest_ready_seconds": waits,
        **document_of_pause(each.queue),
        "workers": each.workers,
        "threads": each.threads,
        "streams": list(each.streams),
        "wrong": wrong,
    }


def _row(each: QueueOverview, now: datetime) -> list[str]:
    waits = "-" if each.oldest_ready is None else span(now - each.oldest_ready)
    counts = [str(each.counts[state]) for state in UNFINISHED]
    return [each.name, *counts, waits, str(each.workers or "-"), _claims(each, now)]


def _claims(each: QueueOverview, now: datetime) -> str:
    if each.queue.is_paused:
        since = "" if each.queue.paused_at is None else span(now - each.queue.paused_at)
        words = {"since": since or "?", "by": plain(each.queue.paused_by) or "?"}
        text = _("paused for %(since)s by %(by)s") % words
        if each.queue.paused_until is not None:
            text = f"{text}, {until(each.queue.paused_until)}"
        return f"{text}: {plain(each.queue.pause_reason)}" if each.queue.pause_reason else text
    if each.streams:
        return _("open; streams: %(names)s") % {"names": ", ".join(each.streams)}
    return _("no worker") if each.is_waiting and not each.workers else _("open")
