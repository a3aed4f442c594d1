"""Which peers there are, and what must be known of them before any of their code is imported."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """`drain` is how many messages one worker gets: what takes it some seconds. Rates compare, counts needn't."""

    servers: frozenset[str]
    drain: int
    bulk: bool = False
    of_django: bool = False
    """It enqueues through Django's connection, so that a message commits with what the caller wrote beside it."""


_EVERYWHERE = frozenset({"mariadb", "mysql", "postgres"})
PEERS = {
    "django_tasks_db": Profile(_EVERYWHERE, drain=2_000, of_django=True),
    "django_q2": Profile(_EVERYWHERE, drain=4_000, of_django=True),
    "huey": Profile(_EVERYWHERE, drain=3_000),
    "procrastinate": Profile(frozenset({"postgres"}), drain=3_000, bulk=True),
    "celery": Profile(frozenset({"redis"}), drain=5_000),
}
