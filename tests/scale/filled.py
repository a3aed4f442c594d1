"""The table at both sizes, and what may be examined of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from tests.patience import patience
from tests.plans import crowd
from tests.scale import rows
from tests.scale.size import SMALL, TEN_MILLION, Size

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

MOST = 20_000 if connection.vendor != "sqlite" else 20_000 * 8
"""Rows; of SQLite, steps of its machine, of which the cheapest look at a row takes eight."""
FILLED_WITHIN = patience(3_600)
"""Seconds for a test that fills or empties the table too: minutes on an idle machine, most of an hour on a busy one."""
SIZES = [
    pytest.param(SMALL, id="small"),
    pytest.param(TEN_MILLION, id="ten million", marks=[pytest.mark.nightly, pytest.mark.timeout(FILLED_WITHIN)]),
]


@contextmanager
def filled(size: Size, blocker: DjangoDbBlocker) -> Iterator[Size]:
    with blocker.unblock():
        rows.empty()
        rows.fill(size)
        crowd.gather_statistics(*rows.TABLES)
    yield size
    with blocker.unblock():
        rows.empty()
        crowd.forget_statistics()
        connection.close()
