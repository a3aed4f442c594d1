"""What workers remember who delete the history by age."""

from __future__ import annotations

from django.db import models

from django_dbqueue.models.aliases import OwnDatabaseModel
from django_dbqueue.models.fields import ExactTextField


class HistoryAge(OwnDatabaseModel):
    """One row, written under the mutex of the history's readers (``history.age_state``)."""

    id = models.SmallIntegerField(primary_key=True)
    seen_us = models.BigIntegerField()
    """What the database's clock showed when a worker last checked it, in microseconds since 1970."""
    gaps = ExactTextField()
    """Pairs of such moments between which nobody checked, as JSON."""
    places = ExactTextField()
    """How far the rows of some queues were passed, as JSON."""
    gone_to = models.BigIntegerField()
    """The highest id that was deleted by age."""
    purged_to = models.BigIntegerField(null=True)
    """Up to which id whole partitions have expired."""

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"deleted by age up to {self.gone_to}"
