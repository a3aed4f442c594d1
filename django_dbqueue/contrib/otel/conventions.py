"""The names of the messaging conventions (1.45, *Development*), and the attributes that a queue's operations share.

https://github.com/open-telemetry/semantic-conventions/tree/v1.45.0/docs/messaging
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from django.db import connections

from django_dbqueue.envelope import WHOLE_QUEUE

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.45.0"
SYSTEM: Final = "django_dbqueue"

MESSAGE_ID: Final = "messaging.message.id"
BATCH_COUNT: Final = "messaging.batch.message_count"
ERROR_TYPE: Final = "error.type"
FUNCTION: Final = "code.function.name"
READS: Final = "dbqueue.message.reads"
"""How many deliveries of the message were charged, this one included; only from the second on."""
GROUP: Final = "dbqueue.message.group"
"""The name of its group, if the sender has named one; the conventions have a word for that of some systems only."""
OUTCOME: Final = "dbqueue.enqueue.outcome"
"""Only for a message with a key that was not created: ``updated`` or ``ignored``."""

DURATIONS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The conventions' bounds of histograms, in seconds."""

Type = Literal["send", "receive", "process", "settle"]


Attributes = dict[str, str | int]


def identity_of(message: Any) -> Attributes:
    """Return what says which message it is."""
    attributes: Attributes = {MESSAGE_ID: str(message.pk)}
    if message.lane is not None and message.group_name != WHOLE_QUEUE:
        attributes[GROUP] = message.group_name
    return attributes


class Operation(NamedTuple):
    """What all spans and measurements of an operation on a queue share: nobody may change the attributes."""

    name: str
    attributes: Attributes
    series: frozenset[tuple[str, str | int]]
    """The attributes as what can be a key: of each of several databases another one. It keeps its hash."""


@lru_cache(maxsize=4_096)
def operation_on(queue: str, operation: str, kind: Type, using: str) -> Operation:
    """Return an operation on a queue; on several, if it is ''."""
    found: Attributes = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
    }
    if queue:
        found["messaging.destination.name"] = queue
    attributes = found | _server(using)
    return Operation(f"{operation} {queue}" if queue else operation, attributes, frozenset(attributes.items()))


def _server(using: str) -> Attributes:
    """Return where the queue's database is; nothing for SQLite."""
    configured = connections[using].settings_dict
    host, port = configured.get("HOST"), configured.get("PORT")
    if not host:
        return {}
    try:
        return {"server.address": str(host), "server.port": int(port)} if port else {"server.address": str(host)}
    except ValueError:  # the driver will say so
        return {"server.address": str(host)}
