"""The pytest plugin. Every pytest run reads it where this package is installed, before Django is set up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from django_dbqueue.testing.fixture import DBQueueFixture


@pytest.fixture
def dbqueue(db: None) -> DBQueueFixture:  # noqa: ARG001
    """Run consumers, check what was enqueued, and make messages.

    It requests pytest-django's ``db``, and so a transaction that is undone after the test; with ``transactional_db``,
    or the mark ``django_db(transaction=True)``, the test's commits are real.
    """
    from django_dbqueue.testing.fixture import DBQueueFixture

    return DBQueueFixture()
