"""``manage.py queue_pause``: stop all claims from a queue, and record why."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from django_dbqueue import conf
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.management.common_options import Options, duration, moment
from django_dbqueue.management.console import EXIT_USAGE
from django_dbqueue.management.pause_command import LONGEST_REASON, PausingCommand
from django_dbqueue.models import Group, Queue
from django_dbqueue.sessions.django_session import DjangoSession


class Command(PausingCommand):
    """Pause queues, or one group: nothing is claimed until they are resumed, or their end; what runs may finish."""

    help = (
        "Pause queues: nothing is claimed from them until they are resumed, or the pause has ended. Running messages "
        "may finish."
    )
    verb = "pause"
    pauses = True

    def add_options(self, parser: ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--reason", required=True, help="the reason, which other operators can see")
        end = parser.add_mutually_exclusive_group()
        end.add_argument(
            "--for",
            dest="for_",
            type=duration,
            metavar="DURATION",
            help="seconds after which claims continue automatically, or 90s, 15m, 12h, 7d, 2w",
        )
        end.add_argument("--until", type=moment, help="when claims continue, in ISO 8601 with a time zone")
        parser.add_argument("--create", action="store_true", help="also pause queues or groups that don't exist yet")

    def act(self, session: DjangoSession, options: Options) -> None:
        if not options["reason"].strip() or len(options["reason"]) > LONGEST_REASON:
            raise InvalidMessage(_("--reason takes 1 to %(most)d characters.") % {"most": LONGEST_REASON})
        self._end = {"until": options["until"], "for_": options["for_"]}
        if options["group"] is not None and any(self._end.values()):
            raise CommandError(
                _("The pause of a group lasts until it is resumed: leave out --for and --until, or pause the queue."),
                returncode=EXIT_USAGE,
            )
        super().act(session, options)

    def declared(self, options: Options) -> set[str]:
        named = set(options["queues"]) if options["create"] else set()
        return {*named, *conf.get("QUEUES")}

    def switch(self, session: DjangoSession, name: str, *, by: str, reason: str) -> None:
        Queue.objects.db_manager(session.using).pause(name, by=by, reason=reason, **self._end)

    def is_as_wanted(self, row: Queue) -> bool:
        """Return whether it is paused until then already; a duration begins now, so it always sets another end."""
        is_same_end = self._end["for_"] is None and row.paused_until == self._end["until"]
        return row.is_paused and is_same_end

    def switch_group(self, session: DjangoSession, group: Group, *, by: str, reason: str) -> None:
        Group.objects.db_manager(session.using).pause(group.queue, group.name, by=by, reason=reason)
