"""Options that several commands take, read alike."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable
from difflib import get_close_matches

from django.core.management.base import CommandError
from django.db import Error, connections
from django.utils.translation import gettext as _

from django_dbqueue.models import Message
from django_dbqueue.models.aliases import db_alias


def seconds(text: str) -> float:
    """Read a number of seconds from 0 to a year."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 366 * 86_400:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to a year")
    return number


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return what reads a whole number within these bounds."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text[:12]) <= high:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


def chosen_alias(said: str | None) -> str:
    """Return the alias that --database says, or where the queue lives; CommandError where it leads nowhere."""
    alias = said or db_alias(Message)
    if alias not in connections:
        close = get_close_matches(alias, list(connections), 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise CommandError(f"There is no database {alias!r} in DATABASES.{hint}")
    return alias


def unreadable(alias: str, error: Error) -> CommandError:
    """Return what a command ends with where it can't read the queue's tables."""
    return CommandError(
        _(
            "The queue's tables in database %(alias)r can't be read: %(error)s\n"
            "  Is the server up, and did you run: manage.py migrate --database %(alias)s"
        )
        % {"alias": alias, "error": error}
    )
