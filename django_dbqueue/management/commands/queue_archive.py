"""``manage.py queue_archive``: the history in partitions, so that what was exported is dropped and not deleted."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Final

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from django_dbqueue.databases.partitioning_sql import TABLE
from django_dbqueue.databases.statement import Row
from django_dbqueue.history import history_sql, partitioned, partitioning, partitions
from django_dbqueue.history.partitions import Partition
from django_dbqueue.management.common_options import Options, whole
from django_dbqueue.management.console import EXIT_NOTHING, EXIT_USAGE, ConsoleCommand, iso, table
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.counts import grouped

EVERY: Final = 10_000_000


class Command(ConsoleCommand):
    """Show the partitions of the history, or partition it; run again, it makes what is missing, and drops.

    Exit codes: 0 done, or with --dry-run there is something to do; 1 refused, and nothing was changed; 2 wrong options,
    or nobody could be asked; 3 there is nothing to do.
    """

    help = "Partition the history, so that what was exported is dropped at once (MySQL, MariaDB, PostgreSQL)."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "action", choices=("status", "partition"), help="show the partitions; or partition the history"
        )
        parser.add_argument(
            "--every",
            type=whole(1_000, 10**12),
            metavar="N",
            help=f"ids in each partition (default: {EVERY}); a history that has partitions keeps its own",
        )
        parser.add_argument(
            "--undo", action="store_true", help="make it one table again, while only the first has rows"
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
        parser.add_argument("--yes", action="store_true", help="don't ask for confirmation")

    def act(self, session: DjangoSession, options: Options) -> None:
        partitioned.refuse_sqlite(session)
        if options["action"] == "status":
            self._show(session, options)
        elif options["undo"]:
            self._undo(session, options)
        else:
            self._partition(session, options)

    def _partition(self, session: DjangoSession, options: Options) -> None:
        there = partitions.existing(session)
        if there:
            self._keep(session, there, options)
            return
        if options["dry_run"]:
            uppers = partitioning.bounds(partitioned.partitioner_of(session), options["every"] or EVERY)
            self._report(options, uppers, _("Would be partitioned before the ids %(ids)s; nothing was changed."))
            return
        self.confirm(_("Partition the history?"), yes=options["yes"])
        with partitioned.in_turn(session) as partitioner:
            there = partitions.existing(session)  # a killed run may have come that far
            uppers = [each.upper for each in there or [] if each.upper is not None]
            if not uppers:
                uppers = partitioning.bounds(partitioner, options["every"] or EVERY)
                partitioning.begin(partitioner, uppers)
        self._report(
            options, uppers, _("Partitioned before the ids %(ids)s; workers add more and drop what was exported.")
        )

    def _keep(self, session: DjangoSession, there: list[Partition], options: Options) -> None:
        if options["every"] not in (None, partitions.end_and_width(there)[1]):
            raise CommandError(_("The history has partitions already, of another size."), returncode=EXIT_USAGE)
        if options["dry_run"]:
            wanted = partitions.upkeep(session, there, most=None)
            text = _("%(drops)d partitions would be dropped and %(adds)d added; nothing was changed.")
        else:
            with partitioned.in_turn(session):
                wanted = partitioning.patiently(lambda: partitions.change(session, most=None))
            text = _("%(drops)d partitions dropped, %(adds)d added.")
        if not wanted:
            raise CommandError(_("The history has all its partitions."), returncode=EXIT_NOTHING)
        counts = {"drops": len(wanted.drops), "adds": len(wanted.uppers)}
        document = {"dry_run": options["dry_run"], "dropped": [*wanted.drops], "added": [*wanted.uppers]}
        self.write(document, as_json=options["json"], text=text % counts)

    def _undo(self, session: DjangoSession, options: Options) -> None:
        if options["dry_run"]:
            raise CommandError(_("--undo has no --dry-run."), returncode=EXIT_USAGE)
        self.confirm(_("Make the history one table again?"), yes=options["yes"])
        with partitioned.in_turn(session) as partitioner:
            there = _existing(session)
            if there:
                partitioner.undo(there[0])
        self._report(options, [], _("The history is one table."))

    def _report(self, options: Options, uppers: list[int], text: str) -> None:
        document = {"dry_run": options["dry_run"], "before": uppers}
        self.write(document, as_json=options["json"], text=text % {"ids": ", ".join(map(grouped, uppers))})

    def _show(self, session: DjangoSession, options: Options) -> None:
        there = _existing(session)
        first = {each.name: _first_row(session, each) for each in there}
        document: dict[str, object] = {
            "partitions": [
                {"name": _brief(each), "from": each.lower, "before": each.upper, "began_at": began and iso(began[1])}
                for each, began in ((each, first[each.name]) for each in there)
            ]
        }
        head = [_("PARTITION"), _("FROM"), _("BEFORE"), _("BEGAN")]
        lines = table(head, [_cells(each, first[each.name]) for each in there])
        text = "\n".join(lines) if there else _("The history is one table, without partitions.")
        self.write(document, as_json=options["json"], text=text)


def _existing(session: DjangoSession) -> list[Partition]:
    there = partitions.existing(session)
    if there is None:
        raise partitioning.missing()
    return there


def _first_row(session: DjangoSession, partition: Partition) -> Row | None:
    """Return id and time of a partition's first row; None if it has none."""
    rows = session.fetch(history_sql.first_at(session.server, partition.lower or 0))
    return rows[0] if rows and (partition.upper is None or rows[0][0] < partition.upper) else None


def _cells(partition: Partition, began: Row | None) -> list[str]:
    bounds = ["-" if bound is None else grouped(bound) for bound in (partition.lower, partition.upper)]
    return [_brief(partition), *bounds, "-" if began is None else f"{began[1]:%Y-%m-%d %H:%M}"]


def _brief(partition: Partition) -> str:
    """Return a partition's name without the table's, which PostgreSQL's begin with."""
    return partition.name.removeprefix(f"{TABLE}_")
