from __future__ import annotations

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.databases import server_of
from tests.liveness.without_beats import WORKER


@pytest.fixture
def session(other_connection: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    """A worker's session, which holds the named lock of the worker's number."""
    with other_connection.cursor() as cursor:
        cursor.execute(*server_of(connection).sessions.take_lock(WORKER))
        assert cursor.fetchone()[0]
    return other_connection
