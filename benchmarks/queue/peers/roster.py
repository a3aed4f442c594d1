"""Which peers there are, and what must be known of them before any of their code is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Profile:
    """`drain` is how many messages one worker gets: what takes it some seconds. Rates compare, counts needn't."""

    drain: int
    databases: frozenset[str] = frozenset({"mariadb", "mysql", "postgres"})
    """In whose contests it takes part."""
    on_redis: bool = False
    """Its messages are in a Redis, whatever the contest's database is."""
    bulk: bool = False
    """It documents an interface for many messages at once."""
    of_django: bool = False
    """It enqueues through Django's connection, so that a message commits with what the caller wrote beside it."""
    of_tasks: bool = False
    """It is a backend of Django's tasks, run with a Django that has them, and so logs what Django logs of them."""
    python: tuple[int, int] = (3, 9)
    """The oldest Python that it runs on."""


_POSTGRES: Final = frozenset({"postgres"})
PEERS: Final = {
    "django_tasks_db": Profile(drain=2_000, of_django=True, of_tasks=True, python=(3, 12)),
    "django_ox": Profile(
        drain=2_000,
        databases=frozenset({"mysql", "postgres"}),
        bulk=True,
        of_django=True,
        of_tasks=True,
        python=(3, 12),
    ),
    "steady_queue": Profile(
        drain=1_000,
        databases=frozenset({"mysql", "postgres"}),
        of_django=True,
        of_tasks=True,
        python=(3, 12),
    ),
    "huey_tasks": Profile(drain=2_000, databases=_POSTGRES, of_tasks=True, python=(3, 12)),
    "huey_tasks_redis": Profile(drain=4_000, on_redis=True, of_tasks=True, python=(3, 12)),
    "threadmill": Profile(drain=10_000, on_redis=True, of_tasks=True, python=(3, 14)),
    "django_q2": Profile(drain=4_000, of_django=True),
    "huey": Profile(drain=3_000),
    "procrastinate": Profile(drain=3_000, databases=_POSTGRES, bulk=True),
    "graphile_worker": Profile(drain=60_000, databases=_POSTGRES, bulk=True),
    "pg_boss": Profile(drain=20_000, databases=_POSTGRES, bulk=True),
    "bullmq": Profile(drain=20_000, databases=_POSTGRES, bulk=True),
    "bullmq_python": Profile(drain=3_000, databases=_POSTGRES, bulk=True, python=(3, 11)),
    "celery": Profile(drain=5_000, on_redis=True),
}
