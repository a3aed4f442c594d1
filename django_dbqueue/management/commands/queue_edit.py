"""``manage.py queue_edit``: send a message again with another payload, and drop the old one."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from django_dbqueue import signals
from django_dbqueue.exceptions import DuplicateKey
from django_dbqueue.management.common_options import Options, whole
from django_dbqueue.management.console import EXIT_NOTHING, EXIT_WRONG, ConsoleCommand, add_by, operator
from django_dbqueue.management.payload_input import add_payload_kinds, payload_given
from django_dbqueue.management.sweep_command import MAX_ID
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession


class Command(ConsoleCommand):
    """Send a message again with another payload, and print the id of the new one.

    Exit codes: 0 sent; 1 it is claimed or changed in the meantime, a live message has its key, or the database refused;
    2 wrong options, or a payload that can't be stored; 3 there is no such message. Unless 0, nothing was written.
    """

    help = "Send a message again with another payload, drop the old one, and print the id of the new one."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=whole(1, MAX_ID), help="the id of the message")
        parser.add_argument("payload", nargs="?", help="the payload (default, or with -: all of standard input)")
        add_payload_kinds(parser)
        add_by(parser)
        parser.add_argument("--yes", action="store_true", help="don't ask")

    def act(self, session: DjangoSession, options: Options) -> None:
        by = operator(options["by"])
        message = Message.objects.using(session.using).filter(pk=options["id"]).first()
        if message is None:
            raise CommandError(_("There is no message #%(id)s.") % {"id": options["id"]}, returncode=EXIT_NOTHING)
        payload = payload_given(options["kind"], options["payload"])
        words = {"id": message.pk, "queue": message.queue}
        self.confirm(_("Send message #%(id)s of queue %(queue)s again with this payload?") % words, yes=options["yes"])
        try:
            new = Message.objects.using(session.using).send_edited(message, payload, by=by)
        except DuplicateKey as error:
            raise CommandError(
                _("Not sent: queue %(queue)r has a live message with key %(key)r.")
                % {"queue": error.queue, "key": error.key},
                returncode=EXIT_WRONG,
            ) from error
        signals.operator_acted.send(Message, verb="edit", queue=new.queue, by=by, reason=f"#{message.pk}", count=1)
        self.write({"id": new.pk, "instead_of": message.pk}, as_json=options["json"], text=str(new.pk))
