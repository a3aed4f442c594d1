"""The admin's log, in a table of Django's: it may lack characters that the queue's own tables have.

Such a table refuses the reason that somebody gave, and an operator's verb would fail for the note about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError, models, router, transaction

from django_dbqueue.databases.transient_errors import sqlstate_of

KEPT: Final = (0x10FFFF, 0xFFFF, 0x7F)
"""The last character that is written as it is, in each try: all, those of utf8mb3, ASCII."""
_REFUSED: Final = (1366, 3988)
_REFUSED_STATES: Final = ("22P05",)


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
            if last == KEPT[-1] or not _is_about_characters(error):
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


def _is_about_characters(error: DatabaseError) -> bool:
    cause = error.__cause__
    number = cause.args[0] if cause is not None and cause.args else None
    return number in _REFUSED or sqlstate_of(cause) in _REFUSED_STATES
