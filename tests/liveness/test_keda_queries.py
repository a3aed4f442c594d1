"""KEDA's queries in ``docs/deploy`` count what live workers hold, on each server, and read no message."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.models import Worker
from django_dbqueue.models.fields import DbNow
from tests.factories import QUEUE, MessageFactory
from tests.pages.deploy_files import manifests
from tests.process.accounts import plain_account

pytestmark = pytest.mark.django_db(transaction=True)

if settings.TEST_DATABASE != "sqlite":  # several hosts don't share a file

    def query() -> str:
        _, scaled = manifests(f"keda-{connection.vendor}.yaml")
        return str(scaled["spec"]["triggers"][0]["metadata"]["query"])

    def child(pid: int, *, host: str = "shop-worker-6f7d-x2x9k", held: int, late_for: float = -1) -> None:
        Worker.objects.create(
            id=pid,
            pid=pid,
            host=host,
            queues=QUEUE,
            threads=4,
            held=held,
            late_at=DbNow() + timedelta(seconds=-late_for),
        )

    def answer() -> float:
        with connection.cursor() as cursor:
            cursor.execute(query())
            [[found]] = cursor.fetchall()
        return float(found)

    @pytest.fixture
    def of_keda() -> Iterator[BaseDatabaseWrapper]:
        """A connection of an account that has the grant of the page."""
        with plain_account("SELECT", table="django_dbqueue_worker") as environment:
            url, connected = urlsplit(environment["DBQUEUE_TEST_URL"]), connection.copy()
            connected.settings_dict |= {"USER": url.username, "PASSWORD": url.password}
            yield connected
            connected.close()

    def test_nothing_is_held_where_no_worker_is() -> None:
        MessageFactory.create_batch(3)
        assert answer() == 0

    def test_what_live_children_of_these_pods_hold_counts_up_to_twice_their_threads() -> None:
        child(1, held=3)
        child(2, held=400)
        child(3, held=5, host="shop-worker-6f7d-zzz27", late_for=10)
        child(4, held=7, late_for=60)
        child(5, held=7, host="shop-reports-8d5c-ab12c")
        assert answer() == 3 + 8 + 5

    def test_an_account_that_may_read_the_workers_alone_can_send_it(of_keda: BaseDatabaseWrapper) -> None:
        child(1, held=3)
        with of_keda.cursor() as cursor:
            cursor.execute(query())
            assert [float(row[0]) for row in cursor.fetchall()] == [3]
        with pytest.raises(DatabaseError), of_keda.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM django_dbqueue_message")
