"""Article 004: "Building a Queue for Delayed Messages via a RDBMS (1): Design"; its examples are of October 2022.

It names MySQL/MariaDB "our chosen dialect" and means PostgreSQL too: there, and on SQLite, what they don't know is
said in their words. For UNIX_TIMESTAMP() the tests say the second, so that two things can happen within one.
"""

from __future__ import annotations

from typing import Any

from django.db import connection

from tests.systems.articles import ask, run

TABLE = "DelayedQueue"
CREATE = """
CREATE TABLE DelayedQueue
(
pKey VARCHAR(200) NOT NULL,
pKind VARCHAR(100) NOT NULL,
payload BLOB NOT NULL,
scheduledAt BIGINT NOT NULL,
scheduledAtInitially BIGINT NOT NULL,
createdAt BIGINT NOT NULL,
PRIMARY KEY (pKey, pKind)
)
"""
INDEX = "CREATE INDEX DelayedQueue__KindPlusScheduledAtIndex ON DelayedQueue (pKind, scheduledAt)"
INSERT = (
    "INSERT INTO DelayedQueue (pKey, pKind, payload, scheduledAt, scheduledAtInitially, createdAt) "
    "VALUES (%s, 'Contact', %s, %s, %s, %s)"
)
POLL = (
    "SELECT pKey, payload, scheduledAt, createdAt FROM DelayedQueue "
    "WHERE pKind = 'Contact' AND scheduledAt <= %s ORDER BY scheduledAt LIMIT 1"
)
LOCK = "UPDATE DelayedQueue SET scheduledAt = %s + 60 * 5 WHERE pKey = %s AND pKind = 'Contact' AND scheduledAt = %s"
ACKNOWLEDGE = "DELETE FROM DelayedQueue WHERE pKey = %s AND pKind = 'Contact' AND createdAt = %s AND scheduledAt = %s"

NOW = 1666422000


def create() -> str:
    return CREATE.replace("BLOB", "BYTEA") if connection.vendor == "postgresql" else CREATE


def offer(key: str, payload: Any = b"{}", *, at: Any = NOW, now: int = NOW) -> int:
    if connection.vendor == "mysql":
        offer_if_absent = INSERT.replace("INSERT INTO", "INSERT IGNORE INTO")
    else:
        offer_if_absent = f"{INSERT} ON CONFLICT DO NOTHING"
    return run(offer_if_absent, key, payload, at, at, now)


def poll(now: int = NOW) -> tuple[str, int, int] | None:
    """Key, scheduledAt and createdAt of the message that is next."""
    found = ask(POLL, now)
    return (found[0][0], found[0][2], found[0][3]) if found else None


def lock(key: str, seen: int, *, now: int = NOW) -> int | None:
    """The new scheduledAt, by which the holder proves its lock; None if somebody else was first."""
    return now + 60 * 5 if run(LOCK, now, key, seen) else None


def acknowledge(key: str, created: int, locked: int) -> bool:
    return bool(run(ACKNOWLEDGE, key, created, locked))
