from __future__ import annotations

from django.db import models


class Account(models.Model):
    balance = models.IntegerField()

    def __str__(self) -> str:
        return f"account {self.pk}"


class Transfer(models.Model):
    """The trace of a transfer. Its number is not unique, so that a transfer that is booked twice can be seen."""

    number = models.BigIntegerField(db_index=True)
    source = models.IntegerField()
    target = models.IntegerField()
    amount = models.IntegerField()

    def __str__(self) -> str:
        return f"transfer {self.number}"
