"""Whose a stream is: an old run learns of the new one, and a lock is the same however one spells the database."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.exceptions import StreamLost
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import Message, Stream
from django_dbqueue.spark.connection import Connection
from tests.factories import MessageFactory
from tests.streams.conftest import Query

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_old_run_learns_of_the_new_one_also_where_nothing_waits(query: Callable[..., Query]) -> None:
    MessageFactory()
    old = query()
    old.claim()
    Stream.objects.update(run=123, runner="elsewhere:1")
    assert not Message.objects.filter(status="n").exists()
    with pytest.raises(StreamLost, match="taken over the stream 's'"):
        old.claim()


if settings.TEST_DATABASE != "sqlite":  # which has a lock on a file instead

    def test_the_server_names_the_database_of_a_lock() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT DATABASE()" if connection.vendor == "mysql" else "SELECT ''")
            (name,) = cursor.fetchone()
        with Connection(credentials_of("default")) as session:
            assert session.database == name
