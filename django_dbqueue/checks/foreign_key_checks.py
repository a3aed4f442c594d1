"""Foreign keys of the project's that keep messages from leaving their table."""

from __future__ import annotations

from django.core import checks

from django_dbqueue.lifecycle.left_behind import pointing_to, spelled


def check_foreign_keys(**_: object) -> list[checks.CheckMessage]:
    """Warn of foreign keys to a message that the server enforces: its rows come and go, without Django's on_delete."""
    return [
        checks.Warning(
            f"{spelled(each)} is a foreign key to messages of the queue, with a constraint: a message that a row "
            "points to stays in the table, neither archived nor purged, and an ack that deletes keeps it as done.",
            hint="Give it db_constraint=False and on_delete=models.DO_NOTHING, or keep the message's id in a "
            "BigIntegerField: the row of a message is deleted by the queue, and Django's on_delete is not asked.",
            obj=each.model,
            id="dbqueue.W023",
        )
        for each in pointing_to()
    ]
