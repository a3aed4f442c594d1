"""Rows that the server keeps from leaving the table: an archiver names them in the log, passes by, and continues.

Usually a row of the project's own points to them, by a foreign key with a constraint (``dbqueue.W023``). It is asked
first: where constraints are checked at the commit, and the commit is a caller's, it would be too late. Whatever else
the server refuses is found by trying.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.apps import apps
from django.db import DatabaseError, models, router, transaction

from django_dbqueue.sessions.django_session import DjangoSession

TRIED_AGAIN: Final = 3_600.0
"""Seconds after which the same archiver tries a row again."""
KNOWN: Final = 100_000
"""How many rows an archiver remembers."""
NAMED: Final = 20
"""How many ids one line of the log names."""

logger = logging.getLogger("django_dbqueue")


@dataclass(slots=True)
class LeftBehind:
    """What one archiver has met, so that it doesn't try, and name, the same rows at every turn."""

    _until: dict[int, float] = field(default_factory=dict)

    def without(self, session: DjangoSession, ids: Sequence[int]) -> list[int]:
        """Return those that may leave, as far as is known, having named the others; in the archiver's transaction."""
        now = time.monotonic()
        free = [each for each in ids if self._until.get(each, 0.0) <= now]
        for key in pointing_to():
            if held := _held(session, key, free):
                self.add(held, f"{spelled(key)} points there")
                free = [each for each in free if each not in held]
        return free

    def add(self, ids: Iterable[int], why: str) -> None:
        """Name rows that stay where they are."""
        if len(self._until) > KNOWN:
            self._until.clear()
        named = sorted(ids)
        self._until |= dict.fromkeys(named, time.monotonic() + TRIED_AGAIN)
        some = ", ".join(map(str, named[:NAMED])) + (f" and {len(named) - NAMED} more" if named[NAMED:] else "")
        logger.warning("left in the table, neither archived nor purged: message %s (%s)", some, why)

    def refused(self, message_id: int, error: DatabaseError) -> None:
        """Name a row that the server refused to let go."""
        self.add([message_id], f"{type(error).__name__}: {ascii(' '.join(str(error).split()))[1:-1]:.500}")


def _held(session: DjangoSession, key: Any, ids: list[int]) -> set[int]:
    if not ids or not router.allow_migrate_model(session.using, key.model):
        return set()
    rows = key.model._base_manager.using(session.using).filter(**{f"{key.name}__in": ids})
    try:
        with transaction.atomic(using=session.using):  # its table may not be there yet
            return set(rows.values_list(key.attname, flat=True))
    except DatabaseError:
        return set()


def pointing_to() -> list[Any]:
    """Return the fields, also of tables that Django makes by itself (many-to-many), that the server enforces.

    Where the server itself empties or deletes what points to a row (Django 6.1's DB_CASCADE, DB_SET_NULL), nothing
    keeps it.
    """
    by_server = getattr(models.deletion, "DatabaseOnDelete", ())
    message = apps.get_model("django_dbqueue", "Message")
    return [
        each
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy and model._meta.app_label != "django_dbqueue"
        for each in model._meta.local_fields
        if isinstance(each, models.ForeignKey)
        and getattr(each, "db_constraint", True)
        and isinstance(each.remote_field.model, type)
        and each.remote_field.model._meta.concrete_model is message
        and not isinstance(each.remote_field.on_delete, by_server)
    ]


def spelled(field: Any) -> str:
    """Return a field's name for people: shop.Order.message."""
    return f"{field.model._meta.label}.{field.name}"
