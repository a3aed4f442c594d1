"""A guardian's look reads the workers that are late, however many others there are."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.databases import Statement
from django_dbqueue.liveness.late_workers import late_rows
from django_dbqueue.models import Worker
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import session_of
from tests.plans.plan import cost_of

pytestmark = pytest.mark.django_db
SERVER = "here since then"


def workers(number: int, *, late: int) -> None:
    """That many living workers of one server, and some of them late."""
    fields = {"server": SERVER, "host": "here", "pid": 1, "queues": "emails", "threads": 1}
    for first, count, seconds in ((0, late, -5), (late, number, 60)):
        moment = DbNow() + timedelta(seconds=seconds)
        Worker.objects.bulk_create(Worker(id=first + each, late_at=moment, **fields) for each in range(count))


def late_ones() -> Statement:
    return Statement(*late_rows(session_of("default"), SERVER).query.sql_with_params())


if settings.TEST_DATABASE in ("mysql", "mariadb"):

    @pytest.mark.parametrize("late", [0, 3])
    def test_a_check_among_a_thousand_workers_reads_the_late_ones(late: int) -> None:
        workers(1_000, late=late)
        assert cost_of(connection, late_ones()) <= late + 2


if settings.TEST_DATABASE == "postgres":

    @pytest.mark.parametrize("statistics", ["stale", "fresh"])
    def test_a_check_among_a_thousand_workers_goes_by_the_index_of_the_late_ones(statistics: str) -> None:
        workers(1_000, late=3)
        with connection.cursor() as cursor:
            if statistics == "fresh":
                cursor.execute("ANALYZE django_dbqueue_worker")
            sql, params = late_ones()
            cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
            plan = json.dumps(cursor.fetchone()[0])
        assert "dbqueue_worker_late" in plan
        assert "Seq Scan" not in plan
