"""How a field of a job's config becomes a command-line argument, and how each of its values is read."""

from __future__ import annotations

import math
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import UTC, date, datetime
from typing import Any, Final, TypeVar

from django_dbqueue.envelope import check_queue
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.keys import check_text
from django_dbqueue.spark.credentials import (
    ENVIRONMENT_OPTION,
    FILE_OPTION,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_OPTION,
    MOST_CONNECTIONS,
    Credentials,
)
from django_dbqueue.spark.outage import OPTION, SECONDS
from django_dbqueue.typed_values import typed_whole

Progress = Callable[[str, int, int | None], None]

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw]?)\Z")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z")

Config = TypeVar("Config", bound="JobConfig")


def quiet(_what: str, _done: int, _total: int | None) -> None:
    """Show no progress."""


# -- how one word of a command line is read ---------------------------------------------------------------------------


def duration(text: str) -> float:
    """Read seconds, or a number with a unit: 90, 90s, 15m, 12h, 7d, 2w."""
    match = _DURATION.match(text)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not a length of time: write seconds, or 15m, 12h, 7d, 2w")
    return float(match[1]) * _UNITS[match[2] or "s"]


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of whole numbers within these bounds."""

    def read(text: str) -> int:
        number = typed_whole(text, low, high)
        if number is None:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {low:,} to {high:,}")
        return number

    return read


def rate(text: str) -> float:
    """Read a number of messages per second."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.001 <= number <= 1_000_000:
        raise ArgumentTypeError(f"{text!r} is not a number of messages per second from 0.001 to 1,000,000")
    return number


def queue_name(text: str) -> str:
    """Read a queue's name."""
    try:
        return check_queue(text)
    except InvalidMessage as error:
        raise ArgumentTypeError(str(error)) from error


def message_key(text: str) -> str:
    """Read a message's key."""
    try:
        return check_text(text, what="key")
    except InvalidMessage as error:
        raise ArgumentTypeError(str(error)) from error


def job_name(text: str) -> str:
    """Read the name under which an interrupted run is repeated."""
    if _NAME.match(text) is None:
        raise ArgumentTypeError(
            f"{text!r} is not a valid name: use 1 to 64 of A-Z a-z 0-9 _ . : -, beginning with a letter or a digit"
        )
    return text


def day(text: str) -> date:
    """Read a day, YYYY-MM-DD."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a day: write YYYY-MM-DD") from None


def moment(text: str) -> datetime:
    """Read a moment, ISO 8601; UTC if it has no time zone."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a date or time: write 2026-01-31 or 2026-01-31T15:00 (UTC)") from None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def pair(text: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"{text!r} should be NAME=VALUE")
    return name, value


# -- a field of a config that is an argument of a command line --------------------------------------------------------


def argument(
    text: str,
    *,
    read: Callable[[str], object] = str,
    default: object = MISSING,
    metavar: str | None = None,
    choices: tuple[str, ...] | None = None,
    flag: bool = False,
    repeated: bool = False,
) -> Any:
    """Declare a field as ``--its-name``; required if it has no default. A repeated one is a tuple."""
    keywords: dict[str, object] = {"help": text.replace("%", "%%")}
    if flag:
        keywords["action"] = "store_true"
    else:
        keywords |= {"type": read, "choices": choices, "metavar": metavar}
        if repeated:
            keywords["action"] = "append"
    if repeated and default is MISSING:
        default = ()
    return field(default=False if flag else default, metadata={"argument": keywords})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """What every job is given: where the database's credentials are, never the credentials."""

    credentials_file: str | None = None
    credentials_env: str | None = None
    outage: float = argument(
        "how long to wait for a database that does not answer: seconds, or 90s, 15m (default: 60s; 0: not at all)",
        read=duration,
        default=float(SECONDS),
        metavar="TIME",
    )
    max_connections: int = argument(
        "maximum number of sessions that the pipeline has on the database at once (default: 8; 0: no maximum)",
        read=whole(0, MOST_CONNECTIONS),
        default=MAX_CONNECTIONS,
        metavar="N",
    )

    @property
    def options(self) -> dict[str, str]:
        """Return the data source's options for the database: its credentials' place, and what it is spared."""
        places = {FILE_OPTION: self.credentials_file, ENVIRONMENT_OPTION: self.credentials_env}
        return {name: value for name, value in places.items() if value is not None} | {
            OPTION: str(math.ceil(self.outage)),
            MAX_CONNECTIONS_OPTION: str(self.max_connections),
        }

    def load_credentials(self) -> Credentials:
        """Read the credentials, for a connection of the driver's own."""
        return Credentials.load(self.options)


def arguments_of(config: type[JobConfig]) -> list[Field[Any]]:
    """Return the fields of a config that are command-line arguments."""
    return [each for each in fields(config) if "argument" in each.metadata]


def add_arguments(parser: ArgumentParser, config: type[JobConfig]) -> None:
    """Declare a config's arguments to a parser."""
    for each in arguments_of(config):
        keywords = dict(each.metadata["argument"])
        flag = "--" + each.name.rstrip("_").replace("_", "-")
        parser.add_argument(flag, dest=each.name, required=each.default is MISSING, default=_unsaid(each), **keywords)


def config_of(
    config: type[Config], chosen: Namespace | Mapping[str, object], *, credentials: Mapping[str, Any]
) -> Config:
    """Build a config from what a parser read; InvalidPipeline if its values don't go together."""
    values = vars(chosen) if isinstance(chosen, Namespace) else chosen
    given: dict[str, Any] = {each.name: values[each.name] for each in arguments_of(config)}
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return config(**given, **credentials)


def _unsaid(each: Field[Any]) -> Any:
    """Return a field's default in the form argparse needs, which appends only to a copy of a list."""
    if each.default is MISSING:
        return None
    return list(each.default) if isinstance(each.default, tuple) else each.default
