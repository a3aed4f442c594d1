"""A moment that reads from a replica look for."""

from __future__ import annotations

from django_dbqueue.models.aliases import OwnDatabaseModel
from django_dbqueue.models.fields import AsciiField, UTCDateTimeField


class ReplicaBeat(OwnDatabaseModel):
    """The primary's clock at the last read that was planned for a replica, in one row (``spark.replicas``)."""

    name = AsciiField(max_length=32, primary_key=True)
    at = UTCDateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.name)
