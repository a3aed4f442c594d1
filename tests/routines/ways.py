"""The two ways into a queue, Python and the routines, under the same verbs; and what each verb leaves in the row."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django_dbqueue.exceptions import LeaseLost
from django_dbqueue.models import Message
from tests.factories import QUEUE
from tests.routines.client import Client

LEASE = 3_600
MAX_READS = 5
"""What the settings say where nobody else does; a lease is 60 seconds then."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a holder knows of its claim."""

    id: int
    token: int
    body: str
    content_type: str
    read_count: int
    max_reads: int
    message: Any = None


class ThroughPython:
    def put(self, body: str, max_reads: int | None, lease: int | None) -> int:
        payload = json.loads(body) if body[0] in "[{" else body
        return int(Message.objects.enqueue(payload, queue=QUEUE, max_reads=max_reads, lease=lease).pk)

    def claim(self, how_many: int, lease: float | None) -> list[Held]:
        return [
            Held(m.pk, m.claim_token, m.body, m.content_type, m.read_count, m.max_reads, m)
            for m in Message.objects.claim(how_many, queue=QUEUE, lease=lease)
        ]

    def get(self) -> tuple[int, str, int] | None:
        messages = Message.objects.claim(queue=QUEUE)
        return (messages[0].pk, messages[0].body, messages[0].read_count) if messages else None

    def ack(self, held: Held) -> bool:
        return self._held(held.message.ack)

    def nack(self, held: Held, delay: float | None) -> bool:
        return self._held(lambda: held.message.nack(delay=delay))

    def extend(self, held: Held, seconds: float | None) -> bool:
        return self._held(lambda: held.message.extend(seconds))

    @staticmethod
    def _held(verb: Callable[[], None]) -> bool:
        try:
            verb()
        except LeaseLost:
            return False
        return True


class ThroughRoutines:
    def __init__(self, client: Client) -> None:
        self.client = client

    def put(self, body: str, max_reads: int | None, lease: int | None) -> int:
        return self.client.put(QUEUE, body, max_reads, lease)

    def claim(self, how_many: int, lease: float | None) -> list[Held]:
        return [
            Held(r["id"], r["token"], r["payload"], r["content_type"], r["read_count"], r["max_reads"])
            for r in self.client.claim(QUEUE, how_many, lease)
        ]

    def get(self) -> tuple[int, str, int] | None:
        rows = self.client.get(QUEUE)
        return (rows[0]["id"], rows[0]["payload"], rows[0]["read_cnt"]) if rows else None

    def ack(self, held: Held) -> bool:
        return self.client.ack(held.id, held.token)

    def nack(self, held: Held, delay: float | None) -> bool:
        return self.client.nack(held.id, held.token, delay)

    def extend(self, held: Held, seconds: float | None) -> bool:
        return self.client.extend(held.id, held.token, seconds)


Way = ThroughPython | ThroughRoutines


NEW = {
    "queue": QUEUE, "key": None, "key_hash": None, "live": None, "status": "n", "conn_id": False, "worker_id": False,
    "claim_token": False, "available_at": "now", "due_at": "now", "priority": 0, "read_count": 0, "max_reads": None,
    "crashes": 0, "lease_seconds": None, "body": "hello", "content_type": "text", "headers_text": None,
    "lane": None, "group_name": None, "flow": None, "created_at": "now", "claimed_at": None, "finished_at": None,
    "error": None,
}  # fmt: skip
"""A row as it came in. Numbers of sessions and tokens are there or not; moments are now, or hours from now."""
HELD = NEW | {
    "status": "run", "conn_id": True, "claim_token": True, "claimed_at": "now", "available_at": "+1 h",
    "read_count": 1, "max_reads": MAX_READS, "lease_seconds": LEASE,
}  # fmt: skip
BACK = HELD | {"status": "n", "conn_id": False, "available_at": "now"}
DONE = HELD | {"status": "y", "available_at": "now", "finished_at": "now"}
DEAD = HELD | {"status": "n", "conn_id": False, "available_at": None, "finished_at": "now"}


def state(message_id: int) -> dict[str, Any]:
    """The row, with what differs from run to run made comparable."""
    row = Message.objects.values().get(pk=message_id)
    now = datetime.now(UTC)
    del row["id"]
    for name in ("conn_id", "worker_id", "claim_token"):
        row[name] = row[name] is not None
    for name, value in row.items():
        if isinstance(value, datetime):
            hours = round((value - now).total_seconds() / 3600)
            row[name] = f"{hours:+d} h" if hours else "now"
    return row


def claimed(way: Way, body: str = "hello", *, max_reads: int | None = None) -> Held:
    way.put(body, max_reads, None)
    [held] = way.claim(1, LEASE)
    return held


def overdue(way: Way, *, max_reads: int | None = None) -> Held:
    """Taken, and the lease is over."""
    held = claimed(way, max_reads=max_reads)
    assert way.extend(held, 0)
    return held
