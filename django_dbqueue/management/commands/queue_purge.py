"""``manage.py queue_purge``: move finished messages of a queue into the history, and out of the way."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from typing import Final

from django.core.management.base import CommandError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue import signals
from django_dbqueue.consumers.near_queues import did_you_mean
from django_dbqueue.envelope import check_queue
from django_dbqueue.lifecycle.archive import BATCH, DeadWalk, DoneWalk, count_old
from django_dbqueue.management.common_options import Options, age, whole
from django_dbqueue.management.console import (
    EXIT_INTERRUPTED,
    EXIT_NOTHING,
    ConsoleCommand,
    StepsEnd,
    add_by,
    operator,
    stop_signals,
)
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.counts import grouped
from django_dbqueue.states.ranges_in_use import queues_in_use

STATES: Final = {False: ("done",), True: ("done", "dead")}
"""What is moved, by whether --dead was given."""


class Command(ConsoleCommand):
    """Archive done messages, and with --dead dead ones, that ended long enough ago.

    Exit codes: 0 moved, or with --dry-run there is something to move; 1 the answer was no, or the database can't be
    read; 2 wrong options, or nobody could be asked; 3 there is nothing that old; 130 stopped by SIGINT or SIGTERM
    between two steps. What is reported as moved is moved.
    """

    help = "Move old done messages of a queue into the history; with --dead, its old dead letters as well."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("queue", help="the queue's name")
        parser.add_argument(
            "--older-than",
            type=age,
            required=True,
            metavar="AGE",
            help="ended at least this long ago: 90s, 15m, 12h, 7d, 2w",
        )
        parser.add_argument(
            "--dead", action="store_true", help="dead letters as well; they can't be requeued afterwards"
        )
        parser.add_argument("--limit", type=whole(1, 10**9), help="move at most this many")
        add_by(parser)
        parser.add_argument("--dry-run", action="store_true", help="count what would be moved, and change nothing")
        parser.add_argument("--yes", action="store_true", help="don't ask for confirmation")

    def act(self, session: DjangoSession, options: Options) -> None:
        queue, by = check_queue(options["queue"]), operator(options["by"])
        if options["dry_run"]:
            self._count(session, queue, options)
            return
        what = _("done and dead") if options["dead"] else _("done")
        question = _("Move %(what)s messages of queue %(queue)s that ended at least %(age)s s ago into the history?")
        words = {"what": what, "queue": queue, "age": f"{options['older_than']:g}"}
        self.confirm(question % words, yes=options["yes"])
        moved = dict.fromkeys(STATES[options["dead"]], 0)

        def add(step: tuple[str, int]) -> int:
            state, count = step
            moved[state] += count
            return sum(moved.values())

        end = self.take(_moving(session, queue, options), add, what="purge", total=options["limit"])
        self._report(session, queue, moved, options, end, by=by)

    def _count(self, session: DjangoSession, queue: str, options: Options) -> None:
        counts = dict.fromkeys(STATES[options["dead"]], 0)
        with stop_signals() as stop:
            for state in counts:
                for found in count_old(session, queue, state, age=options["older_than"]):
                    counts[state] += found
                    if stop.received:
                        sys.exit(EXIT_INTERRUPTED)
        if not any(counts.values()):
            self._nothing(session, queue)
        total = min(sum(counts.values()), options["limit"] or sum(counts.values()))
        text = _("%(count)s would be moved; nothing was changed.") % {"count": grouped(total)}
        document = {"queue": queue, "dry_run": True, "count": total, **counts}
        self.write(document, as_json=options["json"], text=text)

    def _nothing(self, session: DjangoSession, queue: str) -> None:
        text = _("Queue %(queue)r has no finished message that old.") % {"queue": queue}
        raise CommandError(text + did_you_mean(queue, queues_in_use(session)), returncode=EXIT_NOTHING)

    def _report(
        self,
        session: DjangoSession,
        queue: str,
        moved: dict[str, int],
        options: Options,
        end: StepsEnd,
        *,
        by: str,
    ) -> None:
        total = sum(moved.values())
        if total:
            signals.operator_acted.send(Message, verb="purge", queue=queue, by=by, reason="", count=total)
        document = {"queue": queue, "dry_run": False, "moved": total, **moved, "interrupted": end.interrupted}
        text = ngettext(
            "%(count)s message moved into the history.", "%(count)s messages moved into the history.", total
        ) % {"count": grouped(total)}
        self.write(document, as_json=options["json"], text=text)
        if end.interrupted:
            self.stderr.write(_("Stopped between two steps; the other messages were not changed."))
        self.leave(end)
        if not total:
            self._nothing(session, queue)


def _moving(session: DjangoSession, queue: str, options: Options) -> Iterator[tuple[str, int]]:
    """Move a bounded number at a time, waiting for our turn among archivers; yield the state and how many."""
    left, old = options["limit"], options["older_than"]
    walk = DeadWalk(session, queue)
    ways: dict[str, Callable[[int], int]] = {
        "done": lambda most: DoneWalk(session, queue).archive(age=old, limit=most),
        "dead": lambda most: walk.archive(age=old, limit=most),
    }
    for state in STATES[options["dead"]]:
        while left is None or left > 0:
            most = BATCH if left is None else min(BATCH, left)
            moved = ways[state](most)
            yield state, moved
            left = None if left is None else left - moved
            if moved < most:
                break
