"""The admin's log, in a table of Django's: it may lack characters that the queue's own tables have.

Such a table refuses the reason that somebody gave, and an operator's verb would fail for the note about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError, models, router, transaction

from django_dbqueue.databases import means

KEPT: Final = (0x10FFFF, 0xFFFF, 0x7F)
"""The last character that is written as it is, in each try: all, those of utf8mb3, ASCII."""


def note(user: Any, rows: Sequence[models.Model], flag: int, text: str, *, object_id: str | None = None) -> None:
    """Write what somebody did with these rows; characters that the table refuses as escapes (``\\u043e``)."""
    for last in KEPT:
        entries = [
            LogEntry(
                user_id=user.pk,
                content_type=ContentType.objects.get_for_model(row, for_concrete_model=False),
                object_id=row.pk if object_id is None else object_id,
                object_repr=_escaped(str(row), last)[:200],
                action_flag=flag,
                change_message=_escaped(text, last),
            )
            for row in rows
        ]
        try:
            with transaction.atomic(using=router.db_for_write(LogEntry)):
                _save(entries)
        except DatabaseError as error:
            if last == KEPT[-1] or not means(error, "characters"):
                raise
        else:
            return


def _save(entries: list[LogEntry]) -> None:
    if len(entries) == 1:  # as Django does, whose signals somebody may listen to
        entries[0].save()
    else:
        LogEntry.objects.bulk_create(entries)


def _escaped(text: str, last: int) -> str:
    return "".join(each if ord(each) <= last else each.encode("ascii", "backslashreplace").decode() for each in text)
