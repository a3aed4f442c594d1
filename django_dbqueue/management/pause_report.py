"""How commands report a pause."""

from __future__ import annotations

from django_dbqueue.management.console import iso
from django_dbqueue.models import Group, Queue


def document_of_pause(row: Queue | Group) -> dict[str, object]:
    """Return for programs whether a pause holds, and what it is; nothing of one that has ended."""
    holds = row.is_paused
    ends = {"paused_until": iso(row.paused_until) if holds else None} if isinstance(row, Queue) else {}
    return {
        "paused": holds,
        "paused_at": iso(row.paused_at) if holds else None,
        **ends,
        "paused_by": row.paused_by if holds else "",
        "pause_reason": row.pause_reason if holds else "",
    }
