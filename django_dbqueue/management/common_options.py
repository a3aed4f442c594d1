"""Options that several commands share."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from django.core.management.base import CommandError
from django.db import Error, connections
from django.utils.connection import ConnectionDoesNotExist
from django.utils.translation import gettext as _

from django_dbqueue import conf
from django_dbqueue.checks.database import check_autocommit
from django_dbqueue.checks.settings_checks import check_settings
from django_dbqueue.envelope import check_lease
from django_dbqueue.exceptions import InvalidMessage, UnsupportedDatabase
from django_dbqueue.models import Message
from django_dbqueue.models.aliases import db_alias
from django_dbqueue.sessions.advice import advice
from django_dbqueue.typed_values import typed_size, typed_span, typed_whole

Options = dict[str, Any]
"""What a command's arguments said, by the name of the option."""


def seconds(text: str) -> float:
    """Read a number of seconds from 0 to a year."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 366 * 86_400:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to a year")
    return number


def interval(text: str) -> float:
    """Read a number of seconds from 0.5 to an hour."""
    number = seconds(text)
    if not 0.5 <= number <= 3_600:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds from 0.5 to 3600")
    return number


def lease(text: str) -> float:
    """Read how many seconds a claim lasts."""
    number = seconds(text)
    try:
        return check_lease(number)
    except InvalidMessage as error:
        raise ArgumentTypeError(str(error)) from None


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of whole numbers within these bounds."""

    def read(text: str) -> int:
        number = typed_whole(text, low, high)
        if number is None:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return number

    return read


def size(text: str) -> int:
    """Read a number of bytes above 0 with its unit, as in 512M or 1.5G (powers of 1024)."""
    if not (found := typed_size(text)):
        raise ArgumentTypeError(f"{text!r} is not a size: write a number above 0 and its unit, as in 512M or 1.5G")
    return found


def age(text: str) -> float:
    """Read an age: seconds, or a number with a unit, as in 90s, 15m, 12h, 7d or 2w."""
    if (found := typed_span(text)) is None:
        raise ArgumentTypeError(f"{text!r} is not an age: write seconds, or 90s, 15m, 12h, 7d, 2w")
    return found


def duration(text: str) -> float:
    """Read how long something lasts: seconds above 0, or a number with a unit, as in 90s, 15m, 12h, 7d or 2w."""
    if not (found := typed_span(text)):
        raise ArgumentTypeError(f"{text!r} is not a duration above 0: write seconds, or 90s, 15m, 12h, 7d, 2w")
    return found


def moment(text: str) -> datetime:
    """Read a date and time with its time zone, in ISO 8601."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(
            _("%(text)r is not a date and time: write 2026-01-31T12:00:00Z") % {"text": text}
        ) from None
    if found.tzinfo is None:
        raise ArgumentTypeError(
            _("%(text)r has no time zone: end it with Z or an offset, as in 2026-01-31T12:00:00+01:00") % {"text": text}
        )
    return found


def chosen_alias(given: str | None) -> str:
    """Return the alias from --database, or where the queue lives; CommandError if there is no such alias."""
    with settings_errors():
        try:
            alias = given or db_alias(Message)
        except ConnectionDoesNotExist:
            alias = str(conf.get("DATABASE"))
        except UnsupportedDatabase as error:
            raise CommandError(str(error)) from error
    if alias not in connections:
        close = get_close_matches(alias, list(connections), 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise CommandError(f"There is no database {alias!r} in DATABASES.{hint}", returncode=2 if given else 1)
    return alias


def refuse_autocommit_off(alias: str) -> None:
    """Raise CommandError where what a command does by itself would never be committed."""
    for refusal in check_autocommit(connections[alias]):
        raise CommandError(f"{refusal.msg}\n  {refusal.hint}")


@contextmanager
def settings_errors() -> Iterator[None]:
    """Raise CommandError that says what DBQUEUE should be, if something fails because of what it is.

    Commands run no system checks, so that an operator can work around a mistake made by somebody else.
    """
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        wrong = [f"  {each}" for each in check_settings() if each.is_serious()]
        if not wrong:
            raise
        raise CommandError("\n".join([_("The settings are invalid:"), *wrong])) from error


def unreadable(alias: str, error: Error) -> CommandError:
    """Return the error a command ends with if it can't read the queue's tables."""
    return CommandError(
        _("The queue's tables in database %(alias)r can't be read or written: %(error)s")
        % {"alias": alias, "error": one_line(error)}
        + f"\n  {advice(connections[alias], error)}"
    )


def one_line(error: BaseException) -> str:
    """Return an error's text, without its line breaks."""
    return " ".join(str(error).split())
