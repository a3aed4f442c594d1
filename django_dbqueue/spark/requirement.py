"""What a session must show before anything is read on it."""

from __future__ import annotations

from typing import Protocol

from django_dbqueue.spark.connection import Connection


class Requirement(Protocol):
    """Pickled to the tasks. Those of replicas are in ``replicas.py``."""

    def check(self, connection: Connection) -> None:
        """Raise DatabaseAway if the session doesn't show it yet."""
