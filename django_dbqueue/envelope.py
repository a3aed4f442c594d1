"""One message on its way in, checked before anything is written."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeGuard

from django_dbqueue import codecs
from django_dbqueue.codecs import BYTES_OF_CHARACTER, Json
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.keys import OnceToken, check_key, check_once, key_hash, lane_of
from django_dbqueue.value_types import TYPES

QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z")
MAX_GROUP_LENGTH: Final = 200
WHOLE_QUEUE: Final = "*"
"""The group of all messages of a queue whose option ``group`` says so; no message may name it."""
MAX_HEADER_BYTES: Final = 16_384
INSERT_SIZE: Final = 2_000_000
"""Bytes of text in a multi-row INSERT. SQL escaping may double them, and they still fit a packet of 4 MiB."""
MAX_SECONDS: Final = 100 * 366 * 86_400.0
"""The longest delay or lease: a century, so that sums stay inside every server's calendar."""
LEAST_LEASE: Final = 0.001
"""Seconds; by the coarsest of the servers' clocks, a shorter lease has expired when the claim is made."""
MAX_READS_LIMIT: Final = 2_000_000_000
LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=False)
class Envelope:
    """A payload and its options; for items of ``enqueue_many`` that need more than a payload.

    ``delay`` (seconds or timedelta) and ``at`` (aware datetime) set when it is due; ``lease`` is in seconds; None
    everywhere means: not set here. ``group`` names whose message it is; what that means is set for the queue. ``once``
    is a token: its queue takes one message with it in the time ``once_for`` (seconds or timedelta; a day).
    """

    payload: Json
    key: str | None = None
    delay: float | timedelta | None = None
    at: datetime | None = None
    priority: int | None = None
    max_reads: int | None = None
    lease: float | timedelta | None = None
    headers: dict[str, Json] | None = None
    group: str | None = None
    once: str | None = None
    once_for: float | timedelta | None = None


class Sealed(NamedTuple):
    """An envelope that passed every check, in the form of the columns."""

    queue: str
    key: str | None
    key_hash: str | None
    live: int | None
    """1 for a message with a key, since at most one live message has it."""
    body: str
    content_type: str
    headers: str | None
    priority: int
    max_reads: int | None
    lease_seconds: float | None
    lane: int | None
    group_name: str | None
    delay: float
    at: datetime | None
    once: OnceToken | None = None

    @property
    def size(self) -> int:
        """Bytes of text, or slightly more, for bounding the size of one INSERT."""
        headers = self.headers or ""
        size = len(self.body) if self.body.isascii() else len(self.body) * BYTES_OF_CHARACTER
        return size + (len(headers) if headers.isascii() else len(headers) * BYTES_OF_CHARACTER) + 200

    def with_payload(self, payload: object, *, max_bytes: int) -> Sealed:
        """Return the same without headers and with another payload, at a third of what checking an envelope costs."""
        body, content_type, types = codecs.encode(payload, max_bytes=max_bytes)
        return Sealed._make((*self[:4], body, content_type, types and check_headers(None, types=types), *self[7:]))


def seal(envelope: Envelope, *, queue: str, priority: int, max_bytes: int, is_whole_queue: bool = False) -> Sealed:
    """Check an envelope; InvalidMessage names what was wrong. ``priority`` applies if it sets none.

    ``is_whole_queue``: all messages of the queue are one group.
    """
    check_due(envelope.delay, envelope.at)
    body, content_type, types = codecs.encode(envelope.payload, max_bytes=max_bytes)
    name, own, reads = check_queue(queue), envelope.priority, envelope.max_reads
    key = None if envelope.key is None else check_key(envelope.key)
    group = envelope.group
    if group is not None or is_whole_queue:
        group = _group_of(name, group, is_whole_queue=is_whole_queue)
    return Sealed(
        name,
        key,
        None if key is None else key_hash(name, key),
        None if key is None else 1,
        body,
        content_type,
        None if envelope.headers is None and types is None else check_headers(envelope.headers, types=types),
        check_priority(priority if own is None else own),
        None if reads is None else check_max_reads(reads),
        None if envelope.lease is None else check_lease(envelope.lease),
        None if group is None else lane_of(name, group),
        group,
        0.0 if envelope.delay is None else check_seconds("delay", envelope.delay),
        None if envelope.at is None else check_moment(envelope.at),
        _once_of(name, envelope),
    )


def in_inserts(items: Iterable[Sealed], *, rows: int) -> Iterator[list[Sealed]]:
    """Split into INSERTs of at most ``rows`` rows and about INSERT_SIZE bytes; a larger row gets its own."""
    chunk: list[Sealed] = []
    size = 0
    for item in items:
        size += (more := item.size)
        if chunk and (len(chunk) >= rows or size > INSERT_SIZE):
            yield chunk
            chunk, size = [], more
        chunk.append(item)
    if chunk:
        yield chunk


def check_queue(name: object) -> str:
    """Return the queue's name, or raise InvalidMessage."""
    named = QUEUE_NAME.match(name) if isinstance(name, str) else None
    if named is None:
        raise InvalidMessage(
            f"{name!r} is not a queue name: use 1 to 64 of A-Z a-z 0-9 _ . : -, beginning with a letter or a digit."
        )
    return named.group()


def _once_of(queue: str, envelope: Envelope) -> OnceToken | None:
    length = envelope.once_for
    if envelope.once is None and length is None:
        return None
    return check_once(queue, envelope.once, None if length is None else check_seconds("once_for", length))


def _group_of(queue: str, group: object, *, is_whole_queue: bool) -> str:
    if not is_whole_queue:
        return check_group(group)
    if group is not None:
        raise InvalidMessage(
            f"All messages of queue {queue!r} are one group, by its option group={WHOLE_QUEUE!r}, so none can name "
            f"another one: leave group={group!r} out, or use another queue."
        )
    return WHOLE_QUEUE


def check_group(group: object) -> str:
    """Return the name of a group, or raise InvalidMessage."""
    if not isinstance(group, str):
        raise InvalidMessage(f"The group must be a string or None, not {type(group).__name__}: {shown(group)}.")
    if not group or len(group) > MAX_GROUP_LENGTH:
        raise InvalidMessage(
            f"The group's name has {len(group)} characters, but 1 to {MAX_GROUP_LENGTH} are allowed: shorten it, or "
            "hash it."
        )
    if group == WHOLE_QUEUE:
        raise InvalidMessage(
            f"{WHOLE_QUEUE!r} stands for all messages of a queue, so no group can have this name: set the queue's "
            "option group, or choose another name."
        )
    if "\0" in group:
        raise InvalidMessage("The group's name has a NUL character, which PostgreSQL can't store: leave it out.")
    codecs.utf8(group, what="group")
    return codecs.plain(group)


def hash_of_key(queue: str, key: str) -> str:
    """Return the hash by which (queue, key) is found; InvalidMessage for what no message can have."""
    name = check_queue(queue)
    if key is None:
        raise InvalidMessage("A message without a key can't be found by it: give the key that it was enqueued with.")
    return key_hash(name, check_key(key))


def is_whole(value: object, low: int, high: int) -> TypeGuard[int]:
    """Return whether a value is a whole number within these bounds; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def check_whole(name: str, value: object, *, low: int, high: int) -> int:
    """Return a whole number within its bounds, or raise InvalidMessage."""
    if not is_whole(value, low, high):
        raise InvalidMessage(f"{name} must be a whole number from {low} to {high}, not {shown(value)}.")
    return int(value)


def check_priority(value: object) -> int:
    """Return a priority, or raise InvalidMessage."""
    return check_whole("priority", value, low=-100, high=100)


def check_max_reads(value: object) -> int:
    """Return how many reads a message has, 0 for no limit, or raise InvalidMessage."""
    return check_whole("max_reads", value, low=0, high=MAX_READS_LIMIT)


def check_due(delay: object, at: object) -> None:
    """Raise InvalidMessage if both ``delay`` and ``at`` set when a message is due."""
    if delay is not None and at is not None:
        raise InvalidMessage("Give delay or at, not both: each says when the message is due.")


def check_seconds(name: str, value: object) -> float:
    """Return a duration in seconds, 0 or more, or raise InvalidMessage."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    is_odd = isinstance(seconds, bool) or (isinstance(seconds, float) and not math.isfinite(seconds))
    if is_odd or not isinstance(seconds, int | float):
        raise InvalidMessage(f"{name} must be a number of seconds or a timedelta, not {shown(value)}.")
    if not 0 <= seconds <= MAX_SECONDS:
        raise InvalidMessage(f"{name} must be from 0 to {MAX_SECONDS:,.0f} seconds, not {shown(seconds)}.")
    return float(seconds)


def check_lease(value: object, *, name: str = "lease") -> float:
    """Return the length of a lease in seconds, or raise InvalidMessage.

    A lease of 0 expires before the handler starts: the message would be delivered again and again until it is dead.
    """
    seconds = check_seconds(name, value)
    if seconds < LEAST_LEASE:
        raise InvalidMessage(
            f"{name} must be a number of seconds above 0 ({LEAST_LEASE:g} at least), not {shown(value)}: the lease "
            "would expire before the handler starts. None means the value in the settings."
        )
    return seconds


def shown(value: object) -> str:
    """Return how an error shows a value; Python refuses to write out a number with thousands of digits."""
    try:
        return reprlib.repr(value)
    except ValueError:
        return f"a {type(value).__name__} with more digits than can be shown"


def check_moment(at: object, *, name: str = "at") -> datetime:
    """Return a moment in UTC, or raise InvalidMessage."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidMessage(f"{name} must be an aware datetime (use django.utils.timezone), not {at!r}.")
    try:
        moment = at.astimezone(UTC)
    except OverflowError:  # in the first hours of year 1 or the last ones of 9999, where the zone hardly matters
        moment = at.replace(tzinfo=UTC)
    if moment >= LATEST:
        raise InvalidMessage(f"{name} must be before the year {LATEST.year}, not {at!r}.")
    return moment


def check_headers(headers: object, *, types: str | None = None) -> str | None:
    """Return headers as JSON text, None for none; or raise InvalidMessage.

    ``types`` are those of the payload, as JSON text. Without them a header may name them.
    """
    if headers is None or headers == {}:
        return None if types is None else f'{{"{TYPES}":{types}}}'
    if not isinstance(headers, dict):
        raise InvalidMessage(f"headers must be a dict or None, not {type(headers).__name__}.")
    if TYPES in headers:
        others = {name: value for name, value in headers.items() if name != TYPES}
        return check_headers(others, types=codecs.types_text(headers[TYPES]) if types is None else types)
    text = codecs.encode_json(headers, what="headers", max_bytes=MAX_HEADER_BYTES)
    if (size := len(codecs.utf8(text, what="headers"))) > MAX_HEADER_BYTES:
        raise InvalidMessage(
            f"The headers take {size:,} bytes, but the limit is {MAX_HEADER_BYTES:,}: move large ones to the payload."
        )
    return text if types is None else f'{text[:-1]},"{TYPES}":{types}}}'
