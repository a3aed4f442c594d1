"""The options of a read or a write: text under names in any case, read by the caller's rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final, Self, overload

from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.spark.credentials import ENVIRONMENT_OPTION, FILE_OPTION, MAX_CONNECTIONS_OPTION, REFUSED
from django_dbqueue.typed_values import typed_whole

_EVERYWHERE: Final = (FILE_OPTION, ENVIRONMENT_OPTION, MAX_CONNECTIONS_OPTION, "source")
_OF_SPARK: Final = ("checkpointLocation", "queryName")
"""What Spark also passes to the sink of a stream."""
_YES_AND_NO: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one read or write, by lower-case name; every method raises InvalidPipeline for a bad value."""

    values: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str], known: Iterable[str]) -> Self:
        """Take the options if all are known; those that name the database and the source always are.

        A secret is left for ``Credentials.load`` to refuse, which explains it better.
        """
        values = {name.lower(): value for name, value in options.items()}
        names = {name.lower(): name for name in (*known, *_EVERYWHERE)}
        for name in sorted(set(values) - set(names) - {name.lower() for name in _OF_SPARK} - set(REFUSED)):
            close = get_close_matches(name, names, 1)
            meant = f"Did you mean {names[close[0]]!r}? " if close else ""
            raise InvalidPipeline(
                f"There is no option {name!r} here. {meant}The options are {_listed(names.values())}."
            )
        return cls(values)

    def text(self, name: str) -> str | None:
        """Return the text, or None if the option is not set; it can't be empty."""
        value = self.values.get(name.lower())
        if value is not None and not value.strip():
            raise InvalidPipeline(f"The option {name!r} is empty: give it a value, or leave it out.")
        return value

    def required(self, name: str, why: str) -> str:
        """Return the text of a required option; ``why`` completes the error for a missing one."""
        value = self.text(name)
        if value is None:
            raise InvalidPipeline(f"The option {name!r} is missing: {why}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return comma-separated values, each once; () if the option is not set."""
        each = tuple(dict.fromkeys(part.strip() for part in (self.text(name) or "").split(",")))
        if each == ("",):
            return ()
        if "" in each:
            raise InvalidPipeline(f"The option {name!r} has an empty item beside a comma: {self.text(name)!r}.")
        return each

    @overload
    def whole(self, name: str, default: int, *, least: int = ..., most: int = ...) -> int: ...

    @overload
    def whole(self, name: str, default: None = None, *, least: int = ..., most: int = ...) -> int | None: ...

    def whole(self, name: str, default: int | None = None, *, least: int = 1, most: int = 2**63 - 1) -> int | None:
        """Return a whole number, or the default if the option is not set."""
        value = self.text(name)
        if value is None:
            return default
        number = typed_whole(value.strip(), least, most)
        if number is None:
            raise InvalidPipeline(
                f"The option {name!r} is {value!r}; it must be a whole number from {least:,} to {most:,}."
            )
        return number

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """Return one of the choices, in any case of letters."""
        value, allowed = (self.text(name) or default).lower(), tuple(choices)
        if value not in allowed:
            close = get_close_matches(value, allowed, 1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            raise InvalidPipeline(f"The option {name!r} is {value!r}; it can be {_listed(allowed)}.{meant}")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return true or false."""
        return _YES_AND_NO[self.choice(name, _YES_AND_NO, str(default).lower())]

    def moment(self, name: str) -> datetime | None:
        """Return a moment in UTC, given in ISO 8601 with its offset; None if the option is not set."""
        value = self.text(name)
        if value is None:
            return None
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise InvalidPipeline(
                f"The option {name!r} is {value!r}; it must be a date and time with an offset, such as "
                "2026-03-01T00:00:00+00:00 or 2026-03-01T00:00:00Z."
            )
        return moment.astimezone(UTC)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
