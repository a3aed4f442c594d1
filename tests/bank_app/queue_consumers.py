from __future__ import annotations

import os
from typing import TYPE_CHECKING

from django.db.models import F

from django_dbqueue import consumer
from tests.bank_app import boundaries
from tests.bank_app.models import Account, Transfer

if TYPE_CHECKING:
    from django_dbqueue.models import Message

PLAN = os.environ.get("DBQUEUE_TEST_PLAN")
if PLAN:
    boundaries.follow(PLAN)


@consumer("bank", transactional=True, max_reads=0, backoff=0.02, backoff_max=0.1)
def transfer(message: Message) -> None:
    book(message.payload)


@consumer("bank-in-steps", max_reads=0, backoff=0.02, backoff_max=0.1)
def transfer_in_steps(message: Message) -> None:
    """Book it in three steps, with a sleep between, and nothing that is once by itself."""
    booking = message.payload
    with message.step("withdraw") as step:
        if step.is_new:
            Transfer.objects.create(**booking)
            Account.objects.filter(pk=booking["source"]).update(balance=F("balance") - booking["amount"])
            step.result = booking["amount"]
    message.sleep("clear", 0.05)
    assert message.step("receipt", receipt_of, booking["number"]) == f"receipt {booking['number']}"
    with message.step("deposit") as step:
        if step.is_new:
            Account.objects.filter(pk=booking["target"]).update(balance=F("balance") + booking["amount"])


def receipt_of(number: int) -> str:
    return f"receipt {number}"


def book(booking: dict[str, int]) -> None:
    """Book it as people do who have no deaths in mind, and without a common order of locks."""
    source, target = Account.objects.filter(pk=booking["source"]), Account.objects.filter(pk=booking["target"])
    source.select_for_update().get()
    Transfer.objects.create(**booking)
    source.update(balance=F("balance") - booking["amount"])
    target.update(balance=F("balance") + booking["amount"])
