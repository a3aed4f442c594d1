"""The one settings dict ``DBQUEUE``: read lazily; the first place that sets a value wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings

NAME: Final = "DBQUEUE"

TOP_LEVEL: Final[dict[str, object]] = {
    "DATABASE": None,
    "DEFAULTS": {},
    "QUEUES": {},
    "MAX_PAYLOAD_BYTES": 1024 * 1024,
    "NOTIFY": True,
    "REDACT": (),
    "SCHEDULES": {},
    "SESSION_LOCKS": True,
    "OPERATIONS_QUEUE": "dbqueue.operations",
    "EVENT_RETENTION": 30 * 86_400.0,
}
"""Settings and their defaults."""

KEEP: Final = "keep"
DELETE: Final = "delete"
"""What becomes of an acked row."""

PER_QUEUE: Final[dict[str, object]] = {
    "lease": 60.0,
    "max_reads": 5,
    "priority": 0,
    "retention": 7 * 86_400.0,
    "dead_retention": None,
    "on_ack": KEEP,
    "timeout": None,
    "backoff": 2.0,
    "backoff_max": 3_600.0,
}
"""Options that DEFAULTS and each of QUEUES can set: lease, retentions, timeout and back-off in seconds."""

PER_SCHEDULE: Final[dict[str, object]] = {
    "queue": None,
    "cron": None,
    "timezone": None,
    "missed": "latest",
    "payload": {},
    "key": None,
}
"""Options of each of SCHEDULES; queue and cron are required, and without a timezone TIME_ZONE applies."""


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """A queue's options, resolved: from its consumer, then QUEUES, DEFAULTS, and the built-in default."""

    lease: float
    max_reads: int
    priority: int
    retention: float
    dead_retention: float | None
    on_ack: str
    timeout: float | None
    backoff: float
    backoff_max: float


def get(name: str) -> Any:
    """Return one top-level setting."""
    return getattr(settings, NAME, {}).get(name, TOP_LEVEL[name])


def redaction() -> tuple[tuple[str, ...], str | None]:
    """Return the REDACT setting: the dotted names of fields, and the dotted path of a callable or None."""
    said: Any = get("REDACT")
    if isinstance(said, str):
        return (), said
    if isinstance(said, Mapping):
        return tuple(said.get("names", ())), said.get("callable")
    return tuple(said), None


def queue_options(queue: str, consumer_options: Mapping[str, object] | None = None) -> QueueOptions:
    """Return the options of a queue; a consumer's options override the settings."""
    said = getattr(settings, NAME, {})
    specific, general = said.get("QUEUES", {}).get(queue, {}), said.get("DEFAULTS", {})
    chosen = {**PER_QUEUE, **general, **specific, **(consumer_options or {})}
    return QueueOptions(**{name: chosen[name] for name in PER_QUEUE})


def for_senders(queue: str) -> tuple[int, int]:
    """Return a queue's default priority, and MAX_PAYLOAD_BYTES: what every enqueue needs."""
    said = getattr(settings, NAME, {})  # read once, because it costs more than all the rest
    priority = _first("priority", said, queue)
    return priority, said.get("MAX_PAYLOAD_BYTES", TOP_LEVEL["MAX_PAYLOAD_BYTES"])


def on_ack(queue: str) -> str:
    """Return what becomes of a queue's acked messages: KEEP or DELETE. Every ack needs only this."""
    said: str = _first("on_ack", getattr(settings, NAME, {}), queue)
    return said


def _first(name: str, said: Mapping[str, Any], queue: str) -> Any:
    """Return one option of a queue, from the place that overrides the others."""
    specific = said.get("QUEUES", {}).get(queue, {})
    return specific[name] if name in specific else said.get("DEFAULTS", {}).get(name, PER_QUEUE[name])
