"""``manage.py queue_pause``: stop all claims from a queue, and record why."""

from __future__ import annotations

from argparse import ArgumentParser

from django.utils.translation import gettext as _

from django_dbqueue import conf
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.management.common_options import Options
from django_dbqueue.management.pause_command import LONGEST_REASON, PausingCommand
from django_dbqueue.models import Queue


class Command(PausingCommand):
    """Pause queues: nothing is claimed from them until they are resumed; what runs may finish."""

    help = "Pause queues: nothing is claimed from them until they are resumed. Running messages may finish."
    verb = "pause"
    pauses = True

    def add_options(self, parser: ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--reason", required=True, help="the reason, which other operators can see")
        parser.add_argument("--create", action="store_true", help="also pause queues that don't exist yet")

    def act(self, alias: str, said: Options) -> None:
        if not said["reason"].strip() or len(said["reason"]) > LONGEST_REASON:
            raise InvalidMessage(_("--reason takes 1 to %(most)d characters.") % {"most": LONGEST_REASON})
        super().act(alias, said)

    def declared(self, said: Options) -> set[str]:
        named = set(said["queues"]) if said["create"] else set()
        return {*named, *conf.get("QUEUES")}

    def switch(self, alias: str, name: str, *, by: str, reason: str) -> None:
        Queue.objects.db_manager(alias).pause(name, by=by, reason=reason)
