"""``manage.py queue_send``: put a message into a queue, from an argument or from standard input."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from contextlib import suppress
from typing import Final

from django.core.management.base import CommandError
from django.db import Error
from django.utils.translation import gettext as _

from django_dbqueue.codecs import Json, decode_json
from django_dbqueue.consumers.near_queues import did_you_mean
from django_dbqueue.consumers.registry import has_consumer
from django_dbqueue.envelope import MAX_READS_LIMIT
from django_dbqueue.exceptions import DuplicateKey, InvalidMessage, UndecodableMessage
from django_dbqueue.insight.owners import servers_of
from django_dbqueue.management.common_options import Options, lease, moment, seconds, whole
from django_dbqueue.management.console import EXIT_USAGE, EXIT_WRONG, ConsoleCommand, iso
from django_dbqueue.management.payload_input import add_payload_kinds, payload_given
from django_dbqueue.management.task_sending import add_task_options, send_task
from django_dbqueue.models import Message
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.value_types import TYPES

ON_CONFLICT: Final = ("ignore", "update", "error")


def _header(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise ArgumentTypeError(_("%(text)r is not a header: write NAME=VALUE") % {"text": text})
    return name, value


class Command(ConsoleCommand):
    """Send one message and print its id.

    Exit codes: 0 sent, or --on-conflict was applied to a live message with the same key; 1 the database refused, or
    --on-conflict error found one; 2 wrong options, or a payload that can't be stored. Unless 0, nothing was written,
    except if only the output could not be.
    """

    help = "Put a message into a queue and print its id."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("queue", nargs="?", help="the queue's name (of a task its own, unless given)")
        parser.add_argument("payload", nargs="?", help="the payload (default, or with -: all of standard input)")
        add_task_options(parser)
        add_payload_kinds(parser)
        parser.add_argument("--key", help="at most one live message of a queue has this key")
        due = parser.add_mutually_exclusive_group()
        due.add_argument("--delay", type=seconds, help="seconds until it is due")
        due.add_argument("--at", type=moment, help="when it is due, in ISO 8601 with a time zone")
        parser.add_argument("--priority", type=whole(-100, 100), help="from -100 to 100, the highest first")
        parser.add_argument(
            "--max-reads", type=whole(0, MAX_READS_LIMIT), help="maximum number of deliveries; 0 means no limit"
        )
        parser.add_argument("--lease", type=lease, help="length of its lease in seconds")
        parser.add_argument(
            "--header",
            type=_header,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="a header; may be repeated",
        )
        parser.add_argument(
            "--on-conflict",
            choices=ON_CONFLICT,
            default="ignore",
            help=(
                "what to do if a live message has the key: leave that message alone, give it this content, or fail "
                "(default: ignore)"
            ),
        )

    def act(self, session: DjangoSession, options: Options) -> None:
        if options["task"] is not None:
            task = send_task(options, using=session.using)
            self.write(task, as_json=options["json"], text=str(task["id"]))
            return
        if options["task_args"] is not None or options["task_kwargs"] is not None:
            raise InvalidMessage(_("--args and --kwargs are the arguments of a task: name it with --task."))
        if options["queue"] is None:
            raise CommandError(_("Name the queue, or a task with --task."), returncode=EXIT_USAGE)
        try:
            message = Message.objects.enqueue(
                payload_given(options["kind"], options["payload"]),
                queue=options["queue"],
                key=options["key"],
                delay=options["delay"],
                at=options["at"],
                priority=options["priority"],
                max_reads=options["max_reads"],
                lease=options["lease"],
                headers=_headers(options["header"]),
                on_conflict=options["on_conflict"],
                using=session.using,
            )
        except DuplicateKey as error:
            raise CommandError(
                _("Not sent: queue %(queue)r has a live message with key %(key)r.")
                % {"queue": error.queue, "key": error.key},
                returncode=EXIT_WRONG,
            ) from error
        document = {"id": message.pk, "queue": message.queue, "key": message.key, "outcome": message.outcome}
        self.write(document | {"due_at": iso(message.due_at)}, as_json=options["json"], text=str(message.pk))
        if message.outcome != "ignored":
            self._warn_if_unserved(session, message.queue)
        elif not options["json"]:
            self.stderr.write(
                _(
                    "Not sent: this live message already has the key. To change that message or to fail, use "
                    "--on-conflict update or error."
                )
            )

    def _warn_if_unserved(self, session: DjangoSession, queue: str) -> None:
        with suppress(Error):  # what is sent is sent, whether this account may read the table of workers or not
            if has_consumer(queue) is False and not servers_of(queue, session, clock(session.using)).alive:
                text = _("Queue %(queue)r has no consumer in this project, and no worker serves it: the message waits.")
                self.stderr.write(text % {"queue": queue} + did_you_mean(queue))


def _headers(pairs: list[tuple[str, str]]) -> dict[str, Json]:
    headers: dict[str, Json] = {}
    for name, value in pairs:
        if name in headers:
            raise InvalidMessage(_("The header %(name)r is given twice.") % {"name": name})
        headers[name] = _types(value) if name == TYPES else value
    return headers


def _types(text: str) -> Json:
    """Return the types of the payload, the one header that is not a text."""
    try:
        return decode_json(text)
    except UndecodableMessage as error:
        raise InvalidMessage(
            _('The header %(name)s is not JSON, such as {"order": "uuid"}: %(error)s') % {"name": TYPES, "error": error}
        ) from error
