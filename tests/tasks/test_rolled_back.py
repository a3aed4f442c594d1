"""What an enqueue that was rolled back leaves, and one whose receiver of the signal raised."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction

from django_dbqueue.models import Message
from tests.tasks.hearing import hearing

pytestmark = pytest.mark.django_db(transaction=True)


class Unwilling(Exception):
    """Raised by a receiver."""


def refuse(**_: Any) -> None:
    raise Unwilling


def test_sqlite_alone_gives_the_id_of_a_row_that_was_rolled_back_again(jobs: Any) -> None:
    with transaction.atomic():
        gone = jobs.add.enqueue(1, b=2)
        transaction.set_rollback(True)
    assert (jobs.add.enqueue(1, b=2).id == gone.id) == (settings.TEST_DATABASE == "sqlite")


@pytest.mark.parametrize("in_transaction", [False, True])
def test_what_a_receiver_raises_is_raised_and_the_task_is_stored_unless_it_was_in_a_transaction(
    jobs: Any, *, in_transaction: bool
) -> None:
    block = transaction.atomic() if in_transaction else nullcontext()
    with hearing(refuse, "task_enqueued"), pytest.raises(Unwilling), block:
        jobs.add.enqueue(1, b=2)
    assert Message.objects.count() == int(not in_transaction)
