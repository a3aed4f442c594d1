"""Rows that the server keeps from leaving a table: who deletes there names them in the log, passes by, and continues.

Usually a row of the project's own points to them, by a foreign key with a constraint (``dbqueue.W023``). It is asked
first: where constraints are checked at the commit, and the commit is a caller's, it would be too late. Whatever else
the server refuses is found by trying.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from django.apps import apps
from django.db import DatabaseError, models, router, transaction

from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.sessions.retry import in_one_line

TRIED_AGAIN: Final = 3_600.0
"""Seconds after which the same archiver tries a row again."""
KNOWN: Final = 100_000
"""How many rows an archiver remembers."""
STAYS: Final = frozenset({"Queue", "Group", "BulkOperation", "Mutex"})
"""Models whose rows the queue never deletes."""
NAMED: Final = 20
"""How many ids one line of the log names."""

logger = logging.getLogger("django_dbqueue")


@dataclass(slots=True)
class LeftBehind:
    """What somebody who deletes rows of one model has met, so that the same rows aren't tried, and named, each time."""

    model: str = "Message"
    _until: dict[Any, float] = field(default_factory=dict)

    @property
    def met(self) -> int:
        """How many rows were met."""
        return len(self._until)

    def unmet(self, keys: Iterable[Any]) -> list[Any]:
        """Return those that were not refused lately."""
        now = time.monotonic()
        return [each for each in keys if self._until.get(each, 0.0) <= now]

    def lately(self) -> list[Any]:
        """Return those that were refused lately."""
        now = time.monotonic()
        return [key for key, until in self._until.items() if until > now]

    def forget(self, key: Any) -> None:
        """Forget that a row was refused: what found that out was undone, with all else that it did."""
        self._until.pop(key, None)

    def without(self, session: DjangoSession, keys: Iterable[Any]) -> list[Any]:
        """Return those that may leave, as far as is known, having named the others; in the transaction that deletes."""
        free = self.unmet(keys)
        for key in pointing_to(self.model):
            if held := pointed_to(session, key, free):
                self.add(held, f"{spelled(key)} points there")
                free = [each for each in free if each not in held]
        return free

    def add(self, keys: Iterable[Any], why: str) -> None:
        """Name rows that stay where they are."""
        if len(self._until) > KNOWN:
            self._until.clear()
        named = sorted(keys)
        self._until |= dict.fromkeys(named, time.monotonic() + TRIED_AGAIN)
        some = ", ".join(map(str, named[:NAMED])) + (f" and {len(named) - NAMED} more" if named[NAMED:] else "")
        kept = "neither archived nor purged" if self.model == "Message" else "though its time is over"
        logger.warning("left in the table, %s: %s %s (%s)", kept, self.model.lower(), some, why)

    def refused(self, key: Any, error: DatabaseError) -> None:
        """Name a row that the server refused to let go."""
        self.add([key], in_one_line(error))


_found: Final = set[tuple[str, Any]]()
"""Tables that were there, by alias and model: they are asked without a savepoint."""


def pointed_to(session: DjangoSession, key: Any, ids: list[Any]) -> set[Any]:
    """Return which of these rows a foreign key points to."""
    if not ids or not router.allow_migrate_model(session.using, key.model):
        return set()
    rows = key.model._base_manager.using(session.using).filter(**{f"{key.name}__in": ids})
    table = session.using, key.model
    try:
        with nullcontext() if table in _found else transaction.atomic(using=session.using):
            held = set(rows.values_list(key.attname, flat=True))
    except DatabaseError:
        if table in _found:
            raise
        return set()  # its table isn't there yet
    _found.add(table)
    return held


def pointing_to(*names: str) -> list[Any]:
    """Return the fields that point to these models of the queue's (to all whose rows go), and that the server enforces.

    Also those of tables that Django makes by itself (many-to-many). Where the server itself empties or deletes what
    points to a row (Django 6.1's DB_CASCADE, DB_SET_NULL), nothing keeps it.
    """
    by_server = getattr(models.deletion, "DatabaseOnDelete", ())
    models_of_ours = apps.get_app_config("django_dbqueue").get_models()
    ours = {each for each in models_of_ours if (each.__name__ in names if names else each.__name__ not in STAYS)}
    return [
        each
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy and model._meta.app_label != "django_dbqueue"
        for each in model._meta.local_fields
        if isinstance(each, models.ForeignKey)
        and getattr(each, "db_constraint", True)
        and isinstance(each.remote_field.model, type)
        and each.remote_field.model._meta.concrete_model in ours
        and not isinstance(each.remote_field.on_delete, by_server)
    ]


def spelled(field: Any) -> str:
    """Return a field's name for people: shop.Order.message."""
    return f"{field.model._meta.label}.{field.name}"
