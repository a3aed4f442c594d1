"""Headers that an instrument adds to what is sent. They must not be why a message is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from django_dbqueue.envelope import MAX_HEADER_BYTES, Envelope, check_headers
from django_dbqueue.exceptions import InvalidMessage

BAGGAGE: Final = "baggage"
"""A list that several instruments add to."""
_WORST: Final = 6
"""Bytes of JSON that a character of ``repr`` takes at most."""


def with_headers(envelope: Envelope, added: Mapping[str, str]) -> Envelope:
    """Return the envelope with these headers too, unless there is no room for them, or its own are wrong anyway."""
    own: Any = envelope.headers
    if not added or (own and not isinstance(own, dict)):
        return envelope
    headers = {**(own or {}), **added}
    if own:
        if BAGGAGE in own and BAGGAGE in added:
            headers[BAGGAGE] = f"{own[BAGGAGE]},{added[BAGGAGE]}"
        if _WORST * len(repr(headers)) > MAX_HEADER_BYTES and not _fit(headers):
            return envelope
    return replace(envelope, headers=headers)


def _fit(headers: dict[str, Any]) -> bool:
    try:
        check_headers(headers)
    except InvalidMessage:
        return False
    return True
