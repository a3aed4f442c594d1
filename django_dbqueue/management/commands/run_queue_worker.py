"""``manage.py run_queue_worker``: parse, check, and let the supervisor run."""

from __future__ import annotations

import logging
import sys
import time
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connections
from django.utils.translation import gettext as _

from django_dbqueue import checks, conf
from django_dbqueue.checks.answers import is_in_memory
from django_dbqueue.checks.unapplied import unapplied_migrations
from django_dbqueue.consumers import consumer_modules, registry
from django_dbqueue.consumers.near_queues import near_queue
from django_dbqueue.consumers.registry import largest_batch
from django_dbqueue.contrib.otel import switch
from django_dbqueue.envelope import check_queue
from django_dbqueue.exceptions import InvalidMessage, InvalidSchedule, SchedulesNotInstalled
from django_dbqueue.management.common_options import chosen_alias, interval, lease, seconds, size, unreadable, whole
from django_dbqueue.models import Message
from django_dbqueue.models.fields import clock
from django_dbqueue.schedules.declarations import Plan
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.tasks.task_schedules import log_unimportable
from django_dbqueue.worker import logs, reload
from django_dbqueue.worker.bulk_steps import operations_consumer
from django_dbqueue.worker.late_signals import ends_with_its_command
from django_dbqueue.worker.probe_file import LivenessFile
from django_dbqueue.worker.recycling import refusal
from django_dbqueue.worker.supervisor import Supervisor
from django_dbqueue.worker.thread_connections import do_without_pools
from django_dbqueue.worker.worker_options import BATCH_BYTES, WorkerOptions

logger = logging.getLogger("django_dbqueue.worker")


class Command(BaseCommand):
    """Run consumers until stopped.

    Exit codes: 0 stopped, drained or at its limit; 1 could not start, or its children could not; 2 wrong options; 3
    handlers were cut off; 4 ended at once by a third signal.
    """

    help = "Run the consumers of the message queue."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", help=SUPPRESS)  # as others have them; refused below
        parser.add_argument("--queues", help="names, separated by commas (default: every queue that has a consumer)")
        parser.add_argument("--processes", type=whole(1, 512), default=1, help="child processes (default: 1)")
        parser.add_argument("--threads", type=whole(1, 512), default=1, help="threads in each child (default: 1)")
        parser.add_argument(
            "--concurrency",
            type=whole(1, conf.MAX_CONCURRENCY),
            help="messages of async consumers that each child runs at once (default: DBQUEUE['CONCURRENCY'], or 100)",
        )
        parser.add_argument(
            "--batch",
            type=whole(1, 900),
            default=400,
            help="a child holds at most this many messages, and as many of async consumers beyond those that run "
            "(default: 400; at least two full lists of a consumer with a batch)",
        )
        parser.add_argument(
            "--batch-bytes",
            type=whole(0, 2**40),
            default=BATCH_BYTES,
            help="a child fetches at most this many bytes of payloads ahead; larger ones are read when their handler "
            "starts (default: 32 MiB)",
        )
        parser.add_argument("--lease", type=lease, help="seconds; overrides consumers and settings")
        parser.add_argument(
            "--grace",
            type=seconds,
            default=25.0,
            help="seconds that running handlers get to finish when the worker stops (default: 25)",
        )
        _add_ends(parser)
        self._add_surroundings(parser)

    def _add_surroundings(self, parser: ArgumentParser) -> None:
        """Add what doesn't change how messages are handled."""
        parser.add_argument(
            "--idle-interval",
            type=interval,
            help="seconds between the questions of all workers that have had nothing to do for a while (default: 0.5, "
            "or 20 where NOTIFY wakes them)",
        )
        parser.add_argument(
            "--liveness-file",
            type=Path,
            help="for probes: a file whose time is when the slowest child's loop last turned",
        )
        parser.add_argument(
            "--reload",
            action="store_true",
            help="for development: start the worker again when a file of the project was saved, once running handlers "
            "have ended",
        )
        parser.add_argument("--database", help="alias of the database (default: DBQUEUE['DATABASE'], or the router's)")
        parser.add_argument(
            "--log-format", choices=("text", "json"), help="text unless LOGGING has a handler for django_dbqueue"
        )

    def run_from_argv(self, argv: list[str]) -> None:
        ends_with_its_command()
        super().run_from_argv(argv)

    def handle(self, *_args: object, **given: Any) -> None:
        if given["names"]:
            raise CommandError(f"Queues are named by an option: --queues {','.join(given['names'])}", returncode=2)
        for wrong in checks.check_platform():
            raise CommandError(f"{wrong.msg}\n  {wrong.hint}")
        logs.set_up(given["log_format"], given["verbosity"])
        if given["reload"] and not reload.is_reloaded():
            sys.exit(reload.Reloading().run())
        alias = chosen_alias(given["database"])
        do_without_pools()
        self._find_consumers()  # before the checks, which compare them with the queues of tasks
        self._check_database(alias)
        switch.connect()  # once more: a module imported by now may have set OpenTelemetry up
        chosen = self._choose(given["queues"])
        options = WorkerOptions(
            session=session_of(alias),
            queues=tuple(chosen),
            declared_at=clock(alias),
            plans=self._plans(),
            processes=given["processes"],
            threads=given["threads"],
            concurrency=self._concurrency(given["concurrency"], chosen),
            largest_batch=largest_batch(chosen.values()),
            batch=max(given["batch"], given["threads"]),
            batch_bytes=given["batch_bytes"],
            lease=given["lease"],
            grace=given["grace"],
            drain=given["drain"],
            max_messages=given["max_messages"],
            child_max_messages=given["child_max_messages"],
            child_max_rss=given["child_max_rss"],
            idle_interval=given["idle_interval"],
            liveness_file=given["liveness_file"],
            is_reloaded=given["reload"],
        )
        if (why := refusal(options)) is not None:
            raise CommandError(why, returncode=2)
        self._begin_liveness(options)
        began = time.monotonic()
        with _progress(options) as show:
            shown = reload.ends_with_its_parent(show) if options.is_reloaded else show
            code = (supervisor := Supervisor(options, chosen, progress=shown)).run()
        self._sum_up(supervisor.totals, time.monotonic() - began)
        if code:
            sys.exit(code)

    def _begin_liveness(self, options: WorkerOptions) -> None:
        try:
            LivenessFile(options.liveness_file).begin()
        except OSError as error:
            raise CommandError(f"--liveness-file can't be written: {error}") from error

    def _find_consumers(self) -> None:
        if wrong := consumer_modules.unimportable():
            lines = [consumer_modules.sentence(module, error) for module, error in wrong.items()]
            raise CommandError("\n".join(lines)) from next(iter(wrong.values()))

    def _check_database(self, alias: str) -> None:
        settings = connections[alias].settings_dict
        if is_in_memory(connections[alias]):
            raise CommandError(
                f"The database {alias!r} ({settings['NAME']}) lives in this process's memory, which the worker's child "
                "processes can't share: use a file."
            )
        errors = checks.blocking_errors(alias)
        if errors:
            raise CommandError(
                "The worker can't keep its guarantees here:\n" + "\n".join(f"  {error}" for error in errors)
            )
        try:
            Message.objects.using(alias).order_by("pk").values_list("pk").first()
        except Error as error:
            raise unreadable(alias, error) from error
        if missing := unapplied_migrations(connections[alias]):
            raise CommandError(
                f"The queue's tables in database {alias!r} are older than this version of django_dbqueue: "
                f"migrations are not applied ({', '.join(missing.names)}).\n"
                f"  Run: {missing.cure(alias)}"
            )

    def _choose(self, names: str | None) -> dict[str, registry.Consumer]:
        named = [name.strip() for name in (names or "").split(",") if name.strip()]
        registered = registry.registered(named)
        operations = operations_consumer()
        if not registered:
            raise CommandError(
                "No consumer is registered. Write one in a module queue_consumers.py of an installed app:\n"
                '  @consumer("emails")\n  def send_email(message): ...\n'
                "For tasks, name django_dbqueue.tasks.DBQueueBackend in TASKS."
            )
        registered[operations.queue] = operations
        if names is None:
            return registered
        chosen = {}
        for name in dict.fromkeys(named):
            try:
                check_queue(name)
            except InvalidMessage as error:
                raise CommandError(str(error)) from error
            if name in registered:
                chosen[name] = registered[name]
            else:
                near = near_queue(name, registered)
                hint = f"; did you mean {near}?" if near else ""
                logger.warning("no consumer is registered for queue %s: its messages stay there%s", name, hint)
        if not chosen:
            raise CommandError(
                f"None of the queues {names!r} has a consumer. Registered: {', '.join(sorted(registered))}."
            )
        return chosen

    def _concurrency(self, given: int | None, chosen: dict[str, registry.Consumer]) -> int:
        if not any(each.is_async for each in chosen.values()):
            return 0
        return int(conf.get("CONCURRENCY")) if given is None else given

    def _plans(self) -> tuple[Plan, ...]:
        log_unimportable()
        try:
            return tuple(registry.plans())
        except (InvalidSchedule, SchedulesNotInstalled) as error:
            raise CommandError(str(error)) from error

    def _sum_up(self, totals: dict[str, int], seconds: float) -> None:
        done = totals["done"]
        cut_off = f", {totals['cut_off']} cut off" if totals["cut_off"] else ""
        logger.info(
            "worker ended: %s done, %s failed and retried, %s dead, %s released%s, in %.1f s (%.0f done per second)",
            done, totals["failed"], totals["died"], totals["given_back"], cut_off, seconds, done / max(seconds, 0.001),
            extra={"event": "ended", "fields": {**totals, "seconds": round(seconds, 3)}},
        )  # fmt: skip


def _add_ends(parser: ArgumentParser) -> None:
    """Add the options that say when the worker, or a child of it, ends by itself."""
    parser.add_argument("--drain", action="store_true", help="exit when no more messages are due")
    parser.add_argument("--max-messages", type=whole(1, 10**11), help="exit after this many deliveries")
    parser.add_argument(
        "--child-max-messages",
        type=whole(1, 10**11),
        help="replace a child after this many deliveries, or up to a tenth fewer (default: never)",
    )
    parser.add_argument(
        "--child-max-rss",
        type=size,
        help="replace a child when its resident memory, as ps shows it, has reached this (as in 512M), or up to a "
        "tenth less (default: never)",
    )


@contextmanager
def _progress(options: WorkerOptions) -> Iterator[Callable[[dict[str, int]], None]]:
    """Show a bar while draining, on a terminal and with ``rich`` installed (extra ``progress``); else nothing."""
    if not (options.drain and sys.stderr.isatty()):
        yield lambda _totals: None
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        logger.info("install django-dbqueue[progress] for a progress bar")
        yield lambda _totals: None
        return
    from rich.console import Console

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    waiting = sum(_count(options.session.using, name) for name in options.queues)
    connections.close_all()
    # drawn manually: a thread of its own would not survive the forks
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as bar:
        task = bar.add_task(_("draining"), total=waiting)

        def show(totals: dict[str, int]) -> None:
            ended = totals["done"] + totals["died"]
            bar.update(task, completed=ended, total=max(waiting, ended), refresh=True)

        yield show


def _count(alias: str, queue: str) -> int:
    return int(Message.objects.using(alias).ready(queue).count())
