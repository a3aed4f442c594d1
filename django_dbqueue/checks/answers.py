"""Asking a server about itself, for the system checks and the doctor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_dbqueue import conf
from django_dbqueue.databases import server_of, terms_of
from django_dbqueue.envelope import INSERT_SIZE


def examined_by(connection: Any, tables: Sequence[str]) -> dict[str, Any]:
    """Ask a server what it reports about itself; return the fields of ``Examined``."""
    try:
        largest = int(conf.get("MAX_PAYLOAD_BYTES"))
    except (AttributeError, TypeError, ValueError):
        largest = None  # the check of the settings reports it
    question = server_of(connection).facts.settings
    with connection.cursor() as cursor:
        cursor.execute(question.sql, question.params)
        answers = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
    return {
        "connection": connection,
        "answers": answers,
        "tables": tables,
        "largest": largest,
        "sent_together": INSERT_SIZE,
    }


def is_in_memory(connection: Any) -> bool:
    """Return whether the database ends with its process, which no other can share."""
    return terms_of(connection.vendor).is_file and connection.is_in_memory_db()
