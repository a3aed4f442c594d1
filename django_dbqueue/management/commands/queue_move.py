"""``manage.py queue_move``: move messages to another queue."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import CommandError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext_lazy

from django_dbqueue import conf
from django_dbqueue.insight.overview import known_queues
from django_dbqueue.management.common_options import Options
from django_dbqueue.management.console import EXIT_USAGE, refuse_unknown
from django_dbqueue.management.sweep_command import SweepCommand
from django_dbqueue.operations.verbs import VERBS, Order, check_target
from django_dbqueue.sessions.django_session import DjangoSession


class Command(SweepCommand):
    """Move messages to another queue, each with its key, its group and its due time; dead ones become as if new."""

    help = "Move messages to another queue, by id or all of a queue. Dead ones become ready there, as if new."
    verb = "move"
    question = ngettext_lazy(
        "Move %(count)s message%(where)s to queue %(queue)s?",
        "Move %(count)s messages%(where)s to queue %(queue)s?",
        "number",
    )
    done = ngettext_lazy(
        "%(count)s message moved to queue %(queue)s.", "%(count)s messages moved to queue %(queue)s.", "number"
    )

    def add_options(self, parser: ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--to", required=True, metavar="Q", help="the queue into which they go")
        parser.add_argument("--create", action="store_true", help="also move into a queue that doesn't exist yet")

    def act(self, session: DjangoSession, options: Options) -> None:
        self._to = check_target(options["to"])
        if self._to == options["queue"]:
            raise CommandError(_("--queue and --to name the same queue."), returncode=EXIT_USAGE)
        if not options["create"]:
            refuse_unknown([self._to], {*conf.get("QUEUES"), *known_queues(session)})
        super().act(session, options)

    def order(self, by: str, options: Options) -> Order:  # noqa: ARG002 - it takes no reason
        return VERBS[self.verb].ordered(by, "", self._to)

    def gaps(self) -> dict[str, str]:
        return {"queue": self._to}
