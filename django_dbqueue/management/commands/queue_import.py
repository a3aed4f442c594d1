"""``manage.py queue_import``: take over what waits in another queue of the same database."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue.envelope import check_queue
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.importers import SOURCES, source_named
from django_dbqueue.importers.foreign_table import check_tables, check_transactions
from django_dbqueue.importers.source import Addressed, ImportSource, SourceCounts
from django_dbqueue.importers.take_over import ImportStep, preview, take_over
from django_dbqueue.management.beat_schedules import print_schedules
from django_dbqueue.management.common_options import Options, whole
from django_dbqueue.management.console import (
    EXIT_NOTHING,
    EXIT_USAGE,
    EXIT_WRONG,
    ConsoleCommand,
    StepsEnd,
    iso,
    plain,
)
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.counts import grouped
from django_dbqueue.tasks.task_headers import TASK

BEAT: Final = "django-celery-beat"
SHOWN: Final = 5
"""Rows that a dry run shows."""
MOST_NAMED: Final = 20
"""Reasons that are told one by one; --json has all of them."""


@dataclass(slots=True)
class Imported:
    """The result of all steps so far."""

    moved: Counter[str] = field(default_factory=Counter)
    """How many rows became messages, by queue."""
    reasons: Counter[str] = field(default_factory=Counter)
    """How many rows stay, by reason."""
    first: dict[str, str] = field(default_factory=dict)
    """One of the rows that stay, by reason."""
    locked: int = 0
    """How many were begun by their worker in the meantime, or locked by somebody."""
    examples: list[tuple[str, Addressed]] = field(default_factory=list)

    def add(self, step: ImportStep) -> int:
        """Count a step; return how many rows became messages by now."""
        self.moved.update(step.moved)
        self.reasons.update(step.refused.values())
        for key, why in step.refused.items():
            self.first.setdefault(why, str(key))
        self.locked += len(step.locked)
        self.examples += step.examples[: SHOWN - len(self.examples)]
        return self.moved.total()

    @property
    def left(self) -> int:
        """How many rows were tried, and stay where they are."""
        return self.reasons.total() + self.locked


class Command(ConsoleCommand):
    """Take over what waits in another queue: each row becomes a message, and is deleted, in one commit.

    Exit codes: 0 all that waited was taken over, or with --dry-run could be; 1 some rows stay where they are, the
    answer was no, or the database can't be read; 2 wrong options, or nobody could be asked; 3 nothing waits there; 130
    stopped by SIGINT or SIGTERM between two steps. Run it again to continue: what was taken over is not there any more.
    """

    help = "Take over what waits in another queue of the same database: each row once, in steps."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", choices=(*SOURCES, BEAT), help="the other queue, by the name of its package")
        parser.add_argument("--limit", type=whole(1, 10**9), help="at most this many, the first that were enqueued")
        parser.add_argument("--dry-run", action="store_true", help="count and show what would be done; change nothing")
        parser.add_argument("--yes", action="store_true", help="don't ask")
        parser.add_argument(
            "--queue", metavar="Q", help=f"of {BEAT}: the queue to which its schedules are to send (default: schedules)"
        )

    def act(self, session: DjangoSession, options: Options) -> None:
        alias = session.using
        if options["source"] == BEAT:
            self._print_schedules(alias, options)
            return
        if options["queue"] is not None:
            raise InvalidMessage(_("--queue goes with %(source)s only.") % {"source": BEAT})
        source = _source(options["source"])
        tables = [source.model, *source.dependents]
        check_tables(source.name, tables, alias)
        for table in tables:
            check_transactions(table._meta.db_table, alias)
        counts = source.counts(alias)
        if not counts.waiting:
            raise CommandError(_nothing(source, counts), returncode=EXIT_NOTHING)
        if options["dry_run"]:
            steps = preview(session, source, limit=options["limit"])
        else:
            count = min(counts.waiting, options["limit"] or counts.waiting)
            self.confirm(_question(source, count), yes=options["yes"])
            steps = take_over(session, source, limit=options["limit"])
        self._import(steps, source, counts, options)

    def _print_schedules(self, alias: str, options: Options) -> None:
        from django_dbqueue.importers.celery_beat import schedules

        if options["limit"] is not None:
            raise InvalidMessage(_("--limit can't be used with %(source)s.") % {"source": BEAT})
        found = schedules(alias, queue=check_queue(options["queue"] or "schedules"))
        if not found.entries and not found.reasons:
            raise CommandError(_("There are no schedules in %(source)s.") % {"source": BEAT}, returncode=EXIT_NOTHING)
        print_schedules(found, self.stdout, self.stderr, as_json=options["json"])
        if found.reasons:
            sys.exit(EXIT_WRONG)

    def _import(
        self, steps: Iterator[ImportStep], source: ImportSource, counts: SourceCounts, options: Options
    ) -> None:
        imported = Imported()
        end = self.take(steps, imported.add, what=source.name, total=options["limit"] or counts.waiting)
        self._report(imported, source, counts, options, end)
        self.leave(end, is_wrong=bool(imported.left))

    # -- words --------------------------------------------------------------------------------------------

    def _report(
        self, imported: Imported, source: ImportSource, counts: SourceCounts, options: Options, end: StepsEnd
    ) -> None:
        if options["json"]:
            document = _document(imported, source, counts) | {
                "dry_run": options["dry_run"],
                **end.document,
            }
            self.write(document, as_json=True, text="")
            return
        self.stdout.write(_counts_text(source, counts))
        for key, message in imported.examples:
            self.stdout.write("  " + plain(_example(key, message)))
        self.stdout.write(_moved_text(imported.moved, is_dry_run=options["dry_run"]))
        for queue, count in sorted(imported.moved.items()):
            self.stdout.write(_("  %(count)s in queue %(queue)s") % {"count": grouped(count), "queue": queue})
        self._report_rest(imported)
        if end.interrupted:
            self.stderr.write(_("Stopped between two steps; run it again to continue."))

    def _report_rest(self, imported: Imported) -> None:
        for why, count in imported.reasons.most_common(MOST_NAMED):
            words = {"count": grouped(count), "why": plain(why), "row": imported.first[why]}
            self.stderr.write(
                ngettext(
                    "%(count)s row stays where it is: %(why)s (%(row)s)",
                    "%(count)s rows stay where they are: %(why)s (such as %(row)s)",
                    count,
                )
                % words
            )
        if len(imported.reasons) > MOST_NAMED:
            more = grouped(len(imported.reasons) - MOST_NAMED)
            self.stderr.write(_("There are %(count)s more reasons; --json has all of them.") % {"count": more})
        if imported.locked:
            self.stderr.write(
                _("%(count)s left alone: their worker has begun them in the meantime, or somebody has locked them.")
                % {"count": grouped(imported.locked)}
            )


def _source(name: str) -> ImportSource:
    try:
        return source_named(name)
    except ImproperlyConfigured as error:
        raise CommandError(str(error), returncode=EXIT_USAGE) from error


def _document(imported: Imported, source: ImportSource, counts: SourceCounts) -> dict[str, object]:
    return {
        "source": source.name,
        "waiting": counts.waiting,
        "running": counts.running,
        "ended": counts.ended,
        "taken": imported.moved.total(),
        "queues": dict(imported.moved),
        "left_alone": imported.left,
        "locked": imported.locked,
        "reasons": [
            {"why": why, "count": count, "row": imported.first[why]} for why, count in imported.reasons.most_common()
        ],
        "examples": [_shown(key, message) for key, message in imported.examples],
    }


def _shown(key: str, message: Addressed) -> dict[str, Any]:
    envelope = message.envelope
    return {
        "row": key,
        "queue": message.queue,
        "task": (envelope.headers or {}).get(TASK),
        "priority": envelope.priority,
        "due_at": iso(envelope.at),
    }


def _question(source: ImportSource, count: int) -> str:
    return ngettext(
        "Take over %(count)s row of %(source)s, and delete it there?",
        "Take over %(count)s rows of %(source)s, and delete them there?",
        count,
    ) % {"count": grouped(count), "source": source.name}


def _nothing(source: ImportSource, counts: SourceCounts) -> str:
    return _("Nothing waits in %(source)s (running: %(running)s, ended: %(ended)s).") % {
        "source": source.name,
        "running": grouped(counts.running),
        "ended": grouped(counts.ended),
    }


def _counts_text(source: ImportSource, counts: SourceCounts) -> str:
    return _(
        "%(source)s: %(waiting)s waiting, %(running)s running, %(ended)s ended; only what waits is taken over."
    ) % {
        "source": source.name,
        "waiting": grouped(counts.waiting),
        "running": grouped(counts.running),
        "ended": grouped(counts.ended),
    }


def _example(key: str, message: Addressed) -> str:
    shown = _shown(key, message)
    task = shown["task"]
    text = _("%(row)s becomes a message in queue %(queue)s") % shown
    if task is not None:
        text = _("%(row)s becomes task %(task)s in queue %(queue)s") % shown
    return text if shown["due_at"] is None else f"{text}, {_('due at %(due)s') % {'due': shown['due_at']}}"


def _moved_text(moved: Counter[str], *, is_dry_run: bool) -> str:
    count = {"count": grouped(moved.total())}
    if is_dry_run:
        return _("%(count)s would be taken over; nothing was changed.") % count
    return ngettext("%(count)s row taken over.", "%(count)s rows taken over.", moved.total()) % count
