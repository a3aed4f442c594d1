"""Foreign keys of the project's that keep messages, and what else the queue deletes, in their tables."""

from __future__ import annotations

from typing import Any

from django.core import checks

from django_dbqueue.lifecycle.left_behind import pointing_to, spelled
from django_dbqueue.models import Message


def check_foreign_keys(**_: object) -> list[checks.CheckMessage]:
    """Warn of foreign keys to rows that the queue deletes, without Django's on_delete, if the server enforces them."""
    return [
        checks.Warning(
            f"{spelled(each)} is a foreign key to {_what(each)}",
            hint="Give it db_constraint=False and on_delete=models.DO_NOTHING, or keep the id in a plain field: the "
            "queue deletes these rows, and Django's on_delete is not asked.",
            obj=each.model,
            id="dbqueue.W023",
        )
        for each in pointing_to()
    ]


def _what(field: Any) -> str:
    """Say what a foreign key points to, and keeps where it is."""
    model = field.remote_field.model._meta
    if model.concrete_model is Message:
        return (
            "messages of the queue, with a constraint: a message that a row points to stays in the table, neither "
            "archived nor purged, and an ack that deletes keeps it as done."
        )
    return (
        f"{model.label}, with a constraint: the queue deletes these rows when their time is over, and can't delete one "
        "that a row points to."
    )
