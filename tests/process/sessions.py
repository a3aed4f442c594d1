"""The sessions that the server has of the test database, and their end."""

from __future__ import annotations

from django.db import DatabaseError, connection


def sessions() -> set[int]:
    """All but one's own."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        else:
            cursor.execute(
                "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            )
        return {int(session) for (session,) in cursor.fetchall()}


def end_sessions(which: set[int]) -> None:
    """End them; one that has ended by itself meanwhile is no matter."""
    with connection.cursor() as cursor:
        for session in which:
            if connection.vendor == "postgresql":
                cursor.execute("SELECT pg_terminate_backend(%s)", [session])
                continue
            try:
                cursor.execute(f"KILL {session}")
            except DatabaseError as error:
                if "1094" not in str(error):
                    raise
