"""What the values of settings and options must be, and how each is used."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from datetime import timedelta
from math import inf
from typing import Any, Final

from django_dbqueue.envelope import LEAST_LEASE, MAX_SECONDS, WHOLE_QUEUE, is_whole
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.settable.rates import WrongRate, interval_of

Kind = Callable[[Any], Any]
"""Returns a value as it is used; Unfit says what it must be instead. An InvalidMessage is a sentence of its own."""


class Unfit(ValueError):
    """What a value must be: the end of a sentence that begins with the option's name."""


def fitted(kind: Kind, value: object, called: str) -> Any:
    """Return a value as it is used, or raise InvalidMessage; ``called`` is what the sentence calls it."""
    try:
        return kind(value)
    except Unfit as unfit:
        raise InvalidMessage(f"{called} must be {unfit}, not {shown(value)}.") from None
    except InvalidMessage as error:
        raise InvalidMessage(f"{called}: {error}") from error


def shown(value: object) -> str:
    """Return how an error shows a value."""
    try:
        return reprlib.repr(value)
    except Exception:  # a settings file may hold anything, and its repr may raise anything
        return f"a {type(value).__name__}"


def must_be(words: str, fits: Callable[[Any], bool]) -> Kind:
    """Ask for what fits, described in ``words``."""

    def kind(value: object) -> object:
        if not fits(value):
            raise Unfit(words)
        return value

    return kind


def whole(low: int, high: int) -> Kind:
    """Ask for a whole number within bounds."""
    return must_be(f"a whole number from {low:,} to {high:,}", lambda value: is_whole(value, low, high))


def of_type(kind: type | tuple[type, ...], words: str) -> Kind:
    """Ask for a value of a type, described in ``words``."""
    return must_be(words, lambda value: isinstance(value, kind))


def one_of(*words: str) -> Kind:
    """Ask for one of these words."""
    wanted = f"one of {', '.join(words)}" if len(words) > 2 else " or ".join(map(repr, words))
    return must_be(wanted, lambda value: isinstance(value, str) and value in words)


def seconds(*, above_zero: bool = False, most: float = MAX_SECONDS) -> Kind:
    """Ask for a number of seconds or a timedelta, which is used as a number."""

    def kind(value: object) -> float:
        number = value.total_seconds() if isinstance(value, timedelta) else value
        if isinstance(number, bool) or not isinstance(number, int | float) or not -inf < number < inf:
            raise Unfit("a number of seconds or a timedelta")
        if above_zero and number < LEAST_LEASE:
            raise Unfit(f"a number of seconds above 0 ({LEAST_LEASE:g} at least)")
        if not 0 <= number <= most:
            raise Unfit(f"from 0 to {most:,.0f} seconds")
        return float(number)

    return kind


def or_none(other: Kind) -> Kind:
    """Ask for None, or for what another kind asks for."""

    def kind(value: object) -> Any:
        try:
            return None if value is None else other(value)
        except Unfit as unfit:
            raise Unfit(f"{unfit}, or None") from None

    return kind


def or_function(other: Kind) -> Kind:
    """Ask for a function, which is called when the value is needed, or for what another kind asks for."""
    return lambda value: value if callable(value) else other(value)


def rate(value: object) -> object:
    """Ask for a rate of starts."""
    try:
        interval_of(value)
    except WrongRate as wrong:
        raise Unfit(str(wrong)) from None
    return value


ANYTHING: Final = must_be("anything", lambda _value: True)
"""What the value must be depends on the function, or on another option."""
YES_OR_NO: Final = of_type(bool, "True or False")
WHOLE: Final = or_none(
    must_be(
        f"{WHOLE_QUEUE!r}, which makes all messages of the queue one group",
        lambda value: isinstance(value, str) and value == WHOLE_QUEUE,  # other types may raise where they are compared
    )
)
"""The group of all messages of a queue."""
