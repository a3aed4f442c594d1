"""What commands that move messages share: which, how many, confirmed, in steps, stoppable.

Each step is a short transaction that holds nobody up. So stopping between two steps leaves every message either moved
or as it was.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from django.core.management.base import CommandError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue import signals
from django_dbqueue.consumers.near_queues import did_you_mean
from django_dbqueue.envelope import check_queue
from django_dbqueue.management.common_options import Options, whole
from django_dbqueue.management.console import (
    EXIT_INTERRUPTED,
    EXIT_NOTHING,
    EXIT_USAGE,
    ConsoleCommand,
    StepsEnd,
    add_by,
    operator,
    plain,
    stop_signals,
)
from django_dbqueue.models import Message
from django_dbqueue.operations import bulk, mover
from django_dbqueue.operations.outcome import MoveOutcome, in_words
from django_dbqueue.operations.seen import Seen
from django_dbqueue.operations.verbs import VERBS, Order
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.counts import grouped
from django_dbqueue.states.depths import depths
from django_dbqueue.states.ranges_in_use import queues_in_use

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

MAX_ID: Final = 2**63 - 1
MOST_NAMED: Final = 20
"""Refused messages that are named one by one; --json has all of them."""


@dataclass(slots=True)
class Swept:
    """The result of all steps so far."""

    moved: Counter[str] = field(default_factory=Counter)
    """How many, by queue."""
    refused: dict[int, str] = field(default_factory=dict)
    """Named messages that were left alone: by id, why."""
    left_alone: int = 0
    """How many others were left alone."""

    def add(self, step: MoveOutcome, *, named: bool) -> int:
        """Count a step; return how many were moved by now."""
        self.moved.update(step.moved.values())
        if named:
            self.refused |= {message_id: in_words(step.left[message_id]) for message_id in sorted(step.left)}
        else:
            self.left_alone += len(step.left)
        return self.moved.total()


class SweepCommand(ConsoleCommand):
    """Apply one verb to messages by id, or to those of a queue in a state.

    Exit codes: 0 done, or with --dry-run there is something to do; 1 some were left alone, the answer was no, or the
    database can't be read; 2 wrong options, or nobody could be asked; 3 there is no such message; 130 stopped by SIGINT
    or SIGTERM between two steps. Each step is a transaction: what is reported as done is done.
    """

    verb: ClassVar[str]
    question: ClassVar[StrPromise]
    """Asked before the first step, by ``number``; with the gaps ``count`` and ``where``, and those of ``gaps()``."""
    done: ClassVar[StrPromise]
    """Reports those that were moved, likewise, without ``where``."""

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="*", type=whole(1, MAX_ID), metavar="id", help="ids of messages")
        parser.add_argument("--queue", help="messages of this queue, with --state, and --all or --limit")
        parser.add_argument("--state", choices=VERBS[self.verb].states, help="where they stand")
        how_many = parser.add_mutually_exclusive_group()
        how_many.add_argument("--all", action="store_true", help="all that are there now")
        how_many.add_argument("--limit", type=whole(1, 10**9), help="at most this many, in the queue's order")
        if VERBS[self.verb].asks_reason:
            parser.add_argument("--reason", help="why; it stays with each message (required, but for --dry-run)")
        add_by(parser)
        parser.add_argument("--dry-run", action="store_true", help="count what would be done, and change nothing")
        parser.add_argument("--yes", action="store_true", help="don't ask")

    def order(self, by: str, options: Options) -> Order:
        """Return what is to be done."""
        return VERBS[self.verb].ordered(by, options.get("reason") or "")

    def gaps(self) -> dict[str, str]:
        """Return what the texts name besides the messages."""
        return {}

    # -- doing --------------------------------------------------------------------------------------------

    def act(self, session: DjangoSession, options: Options) -> None:
        self._refuse_odd(options)
        by = operator(options["by"])
        if options["dry_run"]:
            self._count(session, options)
            return
        if options["ids"]:
            number, where = len(set(options["ids"])), ""
            count = grouped(number)
        else:
            queue, state, limit = options["queue"], options["state"], options["limit"]
            found = depths(session, [queue], states=[state])[queue].counts[state]
            number = min(found, limit or found)
            where = ngettext(" that is %(state)s in queue %(queue)s", " that are %(state)s in queue %(queue)s", number)
            where %= {"state": state, "queue": queue}
            count = grouped(limit) if limit and limit < found else str(found)
            if not found:
                self._nothing(session, options)
        question = self.question % {"number": number, "count": count, "where": where, **self.gaps()}
        self.confirm(question, yes=options["yes"])
        self._sweep(session, options, self.order(by, options))

    def _refuse_odd(self, options: Options) -> None:
        wrong = ""
        if bool(options["ids"]) == (options["queue"] is not None):
            wrong = _("Name ids, or a queue with --queue, --state, and --all or --limit.")
        elif options["ids"] and (options["state"] or options["all"] or options["limit"]):
            wrong = _("--state, --all and --limit go with --queue, not with ids.")
        elif options["queue"] is not None and not options["state"]:
            wrong = _("Say by --state which messages of the queue.")
        elif options["queue"] is not None and not (options["all"] or options["limit"] or options["dry_run"]):
            wrong = _("Say --all, or by --limit how many.")
        elif VERBS[self.verb].asks_reason and not options["dry_run"] and not (options["reason"] or "").strip():
            wrong = _("Say by --reason why: it stays with each message.")
        if wrong:
            raise CommandError(wrong, returncode=EXIT_USAGE)
        if options["queue"] is not None:
            check_queue(options["queue"])

    def _count(self, session: DjangoSession, options: Options) -> None:
        """Print how many it would be, page by page; nothing is locked."""
        with stop_signals() as stop:
            count = 0
            for found in self._counts(session, options):
                count += found
                if stop.received:
                    sys.exit(EXIT_INTERRUPTED)
                if options["limit"] and count >= options["limit"]:
                    break
        count = min(count, options["limit"] or count)
        if not count:
            self._nothing(session, options)
        text = _("%(count)s would be moved; nothing was changed.") % {"count": grouped(count)}
        self.write({"verb": self.verb, "dry_run": True, "count": count}, as_json=options["json"], text=text)

    def _counts(self, session: DjangoSession, options: Options) -> Iterator[int]:
        if options["ids"]:
            yield bulk.count_movable(session, VERBS[self.verb], options["ids"])
            return
        yield from (len(ids) for ids, _is_last in bulk.pages(session, _selected(session, options)))

    def _nothing(self, session: DjangoSession, options: Options) -> None:
        if options["ids"]:
            text = _("This can't be done to any of these messages.")
        else:
            text = _("No message of queue %(queue)r is %(state)s.") % {
                "queue": options["queue"],
                "state": options["state"],
            }
            text += did_you_mean(options["queue"], queues_in_use(session))
        raise CommandError(text, returncode=EXIT_NOTHING)

    def _sweep(self, session: DjangoSession, options: Options, order: Order) -> None:
        swept, named = Swept(), set(options["ids"])
        add = partial(swept.add, named=bool(named))
        end = self.take(self._steps(session, options, order), add, what=self.verb, total=len(named) or options["limit"])
        self._announce(swept, options, order)
        self._report(swept, options, end)
        self.leave(end, is_wrong=bool(swept.refused or swept.left_alone))

    def _steps(self, session: DjangoSession, options: Options, order: Order) -> Iterator[MoveOutcome]:
        if options["ids"]:
            named = map(Seen, sorted(set(options["ids"])))
            yield from mover.move_all(Message, session, order, named, skips_locked=True)
            return
        selection, tried = _selected(session, options), 0
        cursor: str | None = ""
        while cursor is not None and tried != options["limit"]:
            most = options["limit"] and options["limit"] - tried
            step = mover.move_page(Message, session, order, selection, cursor, most=most)
            tried += len(step.moved) + len(step.left)
            cursor = step.cursor
            yield step

    def _announce(self, swept: Swept, options: Options, order: Order) -> None:
        reason = f"to {order.queue}" if order.queue else options.get("reason") or ""
        for queue, count in swept.moved.items():
            signals.operator_acted.send(Message, verb=self.verb, queue=queue, by=order.by, reason=reason, count=count)

    def _report(self, swept: Swept, options: Options, end: StepsEnd) -> None:
        if options["json"]:
            document: dict[str, object] = {
                "verb": self.verb,
                "dry_run": False,
                "moved": swept.moved.total(),
                "left_alone": swept.left_alone + len(swept.refused),
                "refused": [{"id": each, "why": why} for each, why in swept.refused.items()],
                **end.document,
            }
            self.write(document, as_json=True, text="")
            return
        for message_id, why in list(swept.refused.items())[:MOST_NAMED]:
            self.stderr.write(f"#{message_id}: {plain(why)}")
        if len(swept.refused) > MOST_NAMED:
            more = grouped(len(swept.refused) - MOST_NAMED)
            self.stderr.write(_("… and %(count)s more were left alone.") % {"count": more})
        if swept.left_alone:
            self.stderr.write(
                _("%(count)s left alone: moved in the meantime, locked by others, or a newer live message has the key.")
                % {"count": grouped(swept.left_alone)}
            )
        number = swept.moved.total()
        self.stdout.write(self.done % {"number": number, "count": grouped(number), **self.gaps()})
        if end.interrupted:
            self.stderr.write(_("Stopped between two steps; the other messages were not changed."))


def _selected(session: DjangoSession, options: Options) -> bulk.Selection:
    return bulk.Selection.now(session, state=options["state"], queue=options["queue"])
