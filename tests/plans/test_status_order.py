"""In InnoDB's claim index the rows that wait stand last, so that no dead entry of what was taken lies behind them."""

from __future__ import annotations

import pytest

from django_dbqueue.models import Message
from tests.factories import done, held, waiting

pytestmark = pytest.mark.django_db(transaction=True)
LAST_IS_NEW = ["y", "run", "n"]


def sorted_statuses() -> list[str]:
    return list(Message.objects.order_by("status").values_list("status", flat=True))


@pytest.fixture(autouse=True)
def one_of_each() -> None:
    waiting()
    held()
    done()


def test_the_rows_that_wait_stand_last() -> None:
    assert sorted_statuses() == LAST_IS_NEW
