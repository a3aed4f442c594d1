"""The pytest plugin. It is read in every run of pytest where this package is installed, before Django is set up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from django_dbqueue.testing.fixture import DBQueue


@pytest.fixture
def dbqueue(db: None) -> DBQueue:  # noqa: ARG001
    """Run consumers, look at what was enqueued, and make messages.

    It asks for pytest-django's ``db``, and so for a transaction that is undone after the test; beside
    ``transactional_db``, or the mark ``django_db(transaction=True)``, the test's commits are real.
    """
    from django_dbqueue.testing.fixture import DBQueue

    return DBQueue()
