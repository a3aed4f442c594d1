"""What only one may do at a time: one row each, locked for the length of a transaction."""

from __future__ import annotations

from django_dbqueue.models.aliases import OwnDatabaseModel
from django_dbqueue.models.fields import AsciiField


class Mutex(OwnDatabaseModel):
    """A name to lock ``FOR UPDATE``. Rows appear as needed and hold no data; the lock ends with its transaction.

    It is a row lock because that works behind every pooler, is released by the very commit that it protects, and is the
    same on every server.
    """

    name = AsciiField(max_length=32, primary_key=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.name)
