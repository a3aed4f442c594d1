"""A payload from a terminal: an argument, or all of standard input, as JSON, text or base64."""

from __future__ import annotations

import base64
import binascii
import sys
from argparse import ArgumentParser

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from django_dbqueue import conf
from django_dbqueue.codecs import Json, decode_json
from django_dbqueue.exceptions import InvalidMessage, UndecodableMessage
from django_dbqueue.management.console import EXIT_USAGE
from django_dbqueue.states.counts import grouped


def add_payload_kinds(parser: ArgumentParser) -> None:
    """Add the options that say how the payload is written."""
    kind = parser.add_mutually_exclusive_group()
    for name, meaning in (
        ("--json-payload", "the payload is JSON (default)"),
        ("--text", "the payload is plain text"),
        ("--base64", "the payload is bytes, written in base64"),
    ):
        value = name.strip("-").partition("-")[0]
        kind.add_argument(name, dest="kind", action="store_const", const=value, default="json", help=meaning)


def payload_given(kind: str, given: str | None) -> Json:
    """Return the payload; InvalidMessage says what is wrong with it."""
    text = _read() if given is None or given == "-" else given
    if kind == "text":
        return text
    if kind == "json":
        try:
            return decode_json(text)
        except UndecodableMessage as error:
            raise InvalidMessage(
                _("The payload is not JSON (%(error)s) For plain text, use --text.") % {"error": error}
            ) from error
    try:
        return base64.b64decode("".join(text.split()).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise InvalidMessage(_("The payload is not base64: %(error)s.") % {"error": error}) from error


def _read() -> str:
    """Read standard input, but no more of it than can be stored."""
    if sys.stdin is None or sys.stdin.isatty():
        raise CommandError(_("There is no payload: give it as an argument, or pipe it in."), returncode=EXIT_USAGE)
    most = 2 * conf.get("MAX_PAYLOAD_BYTES") + 1_000  # base64 and its line breaks, or whitespace in JSON
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise InvalidMessage(
            _("Standard input has more than %(most)s bytes, the maximum for a payload.") % {"most": grouped(most)}
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidMessage(
            _("Standard input is not UTF-8 (%(error)s): encode bytes as base64, and use --base64.") % {"error": error}
        ) from error
