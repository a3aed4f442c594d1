"""Keys, tokens of ``once``, which have the same bounds, and lanes: how they are checked, and found by hashes."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from django_dbqueue import codecs
from django_dbqueue.exceptions import InvalidMessage

MAX_KEY_LENGTH: Final = 200
ONCE_FOR: Final = 86_400.0
"""Seconds for which a token is remembered, unless the sender says something else: a day."""
LEAST_ONCE_FOR: Final = 0.001
MAX_ONCE_FOR: Final = 366 * 86_400.0


class OnceToken(NamedTuple):
    """A sender's token, as it is stored, and the seconds for which it is remembered."""

    hash: str
    seconds: float


def check_key(key: object) -> str:
    """Return the key, or raise InvalidMessage."""
    return check_text(key, what="key")


def check_text(text: object, *, what: str) -> str:
    """Return a key, or a token, which has the same bounds; or raise InvalidMessage."""
    if not isinstance(text, str):
        raise InvalidMessage(f"The {what} must be a string or None, not {type(text).__name__}: {text!r}.")
    if not text or len(text) > MAX_KEY_LENGTH:
        raise InvalidMessage(
            f"The {what} has {len(text)} characters, but 1 to {MAX_KEY_LENGTH} are allowed: shorten it, or hash it."
        )
    if "\0" in text:
        raise InvalidMessage(f"The {what} has a NUL character, which PostgreSQL can't store: leave it out.")
    codecs.utf8(text, what=what)
    return codecs.plain(text)


def check_once(queue: str, token: object, seconds: float | None) -> OnceToken:
    """Return a sender's token and for how long it holds, or raise InvalidMessage."""
    if token is None:
        raise InvalidMessage("once_for says how long a token is remembered, but there is none: give once too.")
    length = ONCE_FOR if seconds is None else seconds
    if not LEAST_ONCE_FOR <= length <= MAX_ONCE_FOR:
        raise InvalidMessage(
            f"once_for must be above 0 ({LEAST_ONCE_FOR:g} s at least) and up to {MAX_ONCE_FOR:,.0f} seconds, a year, "
            f"not {length:,g}."
        )
    return OnceToken(key_hash(queue, check_text(token, what="token once")), length)


def key_hash(queue: str, key: str) -> str:
    """Return the hex SHA-256 of (queue, NUL, key).

    Keys are compared through it, byte by byte, whatever the server's collation does with case, accents or trailing
    blanks. In MySQL it is ``SHA2(CONCAT(queue, CHAR(0), key), 256)``.
    """
    return hashlib.sha256(f"{queue}\0{key}".encode()).hexdigest()


def lane_of(queue: str, group: str) -> int:
    """Return the number of a group's lane: 15 bits of the queue's SHA-256, then 48 of (queue, NUL, group)'s.

    So the lanes of a queue are one range of numbers, and nobody compares names. Two groups with the same number would
    share a lane, which delays one behind the other and breaks nothing; by chance that takes tens of millions of them.
    """
    return first_lane(queue) | int.from_bytes(hashlib.sha256(f"{queue}\0{group}".encode()).digest()[:6])


def first_lane(queue: str) -> int:
    """Return the lowest number that a lane of this queue can have; the highest is LANES - 1 above it."""
    return (int.from_bytes(hashlib.sha256(queue.encode()).digest()[:2]) & 0x7FFF) << 48


LANES: Final = 1 << 48
"""How many numbers the lanes of a queue share."""
