"""Assertions on what was enqueued: part of the payload is enough, and a failure reports what was found instead."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any, Final

from django.db.models import Count

from django_dbqueue import conf
from django_dbqueue.codecs import Json
from django_dbqueue.envelope import check_queue, check_seconds
from django_dbqueue.exceptions import UndecodableMessage
from django_dbqueue.models import Message
from django_dbqueue.models.aliases import db_alias
from django_dbqueue.states.selections import LIVE
from django_dbqueue.states.table import Stage

MAX_LISTED: Final = 20
"""Messages that a failure lists."""
MAX_TEXT: Final = 200
"""Characters of each value that a failure shows."""
SECOND: Final = timedelta(seconds=1)

Expected = dict[str, Json]


def assert_enqueued(
    queue: str,
    *,
    payload: Json = ...,
    key: str | EllipsisType | None = ...,
    at: datetime | EllipsisType = ...,
    delay: float | timedelta | EllipsisType = ...,
    priority: int | EllipsisType = ...,
    headers: dict[str, Json] | EllipsisType = ...,
    count: int | None = None,
    using: str | None = None,
) -> list[Message]:
    """Assert that messages like this wait in the queue, or are being processed, and return them, oldest first.

    Unspecified arguments match anything. Dicts in ``payload`` and ``headers`` need only contain what is expected, at
    every level. Lists must have the same length, and matching items. Anything that compares equal matches, such as
    ``unittest.mock.ANY``. ``key=None`` is a message without a key. ``at`` is when it was to be delivered, ``delay``
    (seconds or timedelta) the same from when it was enqueued, each to the second. ``count`` is how many must match;
    without it one is enough.
    """
    expected = _expected(payload=payload, key=key, at=at, delay=delay, priority=priority, headers=headers)
    alias, found = _find(queue, expected, using)
    if (len(found) == count) if count is not None else found:
        return found
    wanted = "at least 1 message" if count is None else f"{count} message{'' if count == 1 else 's'}"
    raise AssertionError(
        f"Expected {wanted} in queue {queue!r}{_words(expected)}, found {len(found) or 'none'}.\n"
        + "\n".join(_what_there_is(alias, queue, expected))
    )


def refute_enqueued(
    queue: str,
    *,
    payload: Json = ...,
    key: str | EllipsisType | None = ...,
    at: datetime | EllipsisType = ...,
    delay: float | timedelta | EllipsisType = ...,
    priority: int | EllipsisType = ...,
    headers: dict[str, Json] | EllipsisType = ...,
    using: str | None = None,
) -> None:
    """Assert that no message like this waits or is being processed; matched as in ``assert_enqueued``."""
    expected = _expected(payload=payload, key=key, at=at, delay=delay, priority=priority, headers=headers)
    _, found = _find(queue, expected, using)
    if found:
        lines = [f"Expected no message in queue {queue!r}{_words(expected)}, found {len(found)}:", *_listed(found, {})]
        raise AssertionError("\n".join(lines))


def _expected(**given: Json) -> Expected:
    expected = {name: value for name, value in given.items() if value is not ...}
    if "at" in expected and "delay" in expected:
        raise ValueError("Give at or delay, not both: each says when the message is due.")
    if "at" in expected:
        expected["at"] = conf.aware(expected["at"])
    if "at" in expected and (not isinstance(expected["at"], datetime) or expected["at"].tzinfo is None):
        raise ValueError(f"at must be an aware datetime (use django.utils.timezone), not {expected['at']!r}.")
    if "delay" in expected:
        expected["delay"] = timedelta(seconds=check_seconds("delay", expected["delay"]))
    return expected


def _find(queue: str, expected: Expected, using: str | None) -> tuple[str, list[Message]]:
    """Return the alias that was searched, and what matches there."""
    alias = using or db_alias(Message)
    return alias, [message for message in _live(alias, check_queue(queue)) if not _differences(message, expected)]


def _live(alias: str, queue: str) -> Iterator[Message]:
    rows = Message.objects.using(alias).in_queue(queue)
    yield from rows.filter(LIVE).order_by("pk").iterator()


def _differences(message: Message, expected: Expected) -> list[str]:
    """Say, for each expectation that isn't met, what was found."""
    found: list[str] = []
    for name, wanted in expected.items():
        try:
            there = _value(message, name)
        except UndecodableMessage as error:
            found.append(f"{name} can't be decoded: {error}")
            continue
        if name in ("at", "delay"):
            if abs(there - wanted) > SECOND:
                found.append(f"{name} is {there}")
        elif name in ("payload", "headers"):
            found += _unlike(there, wanted, name)
        elif there != wanted:
            found.append(f"{name} is {_brief(there)}")
    return found


def _value(message: Message, name: str) -> Any:
    if name == "delay":
        return message.due_at - message.created_at
    return message.due_at if name == "at" else getattr(message, name)


def _unlike(there: object, wanted: object, path: str) -> list[str]:
    """Compare only what is expected; return what differs, by path."""
    if isinstance(wanted, dict) and isinstance(there, dict):
        missing = [f"{path}[{name!r}] is missing" for name in wanted if name not in there]
        return missing + [
            line for name in wanted if name in there for line in _unlike(there[name], wanted[name], f"{path}[{name!r}]")
        ]
    if isinstance(wanted, list | tuple) and isinstance(there, list):
        if len(wanted) != len(there):
            return [f"{path} has {len(there)} items, not {len(wanted)}"]
        pairs = enumerate(zip(there, wanted, strict=True))
        return [line for index, (one, other) in pairs for line in _unlike(one, other, f"{path}[{index}]")]
    is_same = wanted == there and (isinstance(wanted, bool) == isinstance(there, bool) or not _is_number(wanted))
    return [] if is_same else [f"{path} is {_brief(there)}"]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _words(expected: Expected) -> str:
    return f" with {', '.join(f'{name}={_brief(value)}' for name, value in expected.items())}" if expected else ""


def _what_there_is(alias: str, queue: str, expected: Expected) -> list[str]:
    live = list(_live(alias, queue))
    lines = ["The queue has:", *_listed(live, expected)] if live else ["Nothing waits or runs in this queue."]
    rows = Message.objects.using(alias)
    finished = {"done": rows.done(queue).count(), "dead": rows.dead(queue).count()}
    lines += [f"Finished, and so not counted: {count} {state}." for state, count in finished.items() if count]
    others = rows.exclude(queue=queue).values_list("queue").annotate(count=Count("pk")).order_by("queue")
    if others:
        lines.append("Other queues: " + ", ".join(f"{name} ({count})" for name, count in others[:MAX_LISTED]))
    return lines


def _listed(messages: list[Message], expected: Expected) -> Iterator[str]:
    """Yield one line for each message, with what differs from the expectation."""
    for message in messages[:MAX_LISTED]:
        state = "running" if message.stage is Stage.CLAIMED else f"due {message.available_at:%Y-%m-%d %H:%M:%S} UTC"
        key = "" if message.key is None else f", key {message.key!r}"
        differs = "; ".join(_differences(message, expected))
        yield f"  #{message.pk}, {state}{key}: {_payload(message)}{' <- ' * bool(differs)}{differs}"
    if len(messages) > MAX_LISTED:
        yield f"  ... and {len(messages) - MAX_LISTED} more"


def _payload(message: Message) -> str:
    try:
        return _brief(message.payload)
    except UndecodableMessage as error:
        return f"undecodable ({error})"


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."
