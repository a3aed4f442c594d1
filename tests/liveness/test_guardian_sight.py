"""What the guardian sees, what a look costs, and what it can't see."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test.utils import CaptureQueriesContext

from django_dbqueue.databases import Statement, server_of
from django_dbqueue.databases.sessions_sql import MYSQL_PROCESS_LIST
from django_dbqueue.liveness.dead_workers import Guardian, blind_spots
from django_dbqueue.models import Worker
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import DjangoSession
from tests.concurrency.steps import aside
from tests.factories import QUEUE
from tests.liveness.without_beats import NO_BEATS, WORKER, ask, worker_without_beats
from tests.patience import patience

pytestmark = pytest.mark.django_db(transaction=True)

if settings.TEST_DATABASE == "sqlite":

    def test_where_there_are_no_sessions_the_guardian_asks_nothing_and_reports_it() -> None:
        with CaptureQueriesContext(connection) as queries:
            assert Guardian(DjangoSession("default")).check() == 0
        assert len(queries) == 0
        [spot] = blind_spots(DjangoSession("default"))
        assert "SQLite has no sessions" in spot

else:

    def test_a_check_is_one_statement_however_many_workers_there_are_and_two_when_a_hundred_are_frozen(
        session: BaseDatabaseWrapper,
    ) -> None:
        worker = worker_without_beats(session)
        soon = DbNow() + timedelta(hours=1)
        fields = {"server": worker.server, "host": "here", "pid": 1, "queues": QUEUE, "threads": 1}
        Worker.objects.bulk_create(Worker(id=number, late_at=soon, **fields) for number in range(1_000))
        guardian = Guardian(DjangoSession("default"))
        guardian.check()
        with CaptureQueriesContext(connection) as queries:
            guardian.check()
        assert len(queries) == 2
        Worker.objects.filter(pk=WORKER).update(late_at=soon)
        with CaptureQueriesContext(connection) as queries:
            guardian.check()
        assert len(queries) == 1
        Worker.objects.filter(pk__lt=500).update(beat_at=NO_BEATS, late_at=NO_BEATS, session_lock=WORKER)
        with CaptureQueriesContext(connection) as queries:
            assert guardian.check() == 0
        assert len(queries) == 2
        assert not guardian.suspects

    def test_a_live_worker_that_can_not_be_judged_is_named_as_a_blind_spot(session: BaseDatabaseWrapper) -> None:
        assert blind_spots(DjangoSession("default")) == []
        worker_without_beats(session)
        assert blind_spots(DjangoSession("default")) == []
        Worker.objects.update(server="")
        assert blind_spots(DjangoSession("default")) == [], "it has just begun, and may be about to prove its session"
        Worker.objects.update(started_at=DbNow() - timedelta(seconds=4))
        [unproven] = blind_spots(DjangoSession("default"))
        assert "1 worker can't prove its session" in unproven
        Worker.objects.update(server="another since then")
        [elsewhere] = blind_spots(DjangoSession("default"))
        assert "1 worker is connected to another server" in elsewhere

    if settings.TEST_DATABASE in ("mysql", "mariadb"):

        def test_the_servers_list_is_read_while_a_session_runs_a_statement_with_a_character_of_four_bytes(
            session: BaseDatabaseWrapper,
        ) -> None:
            name = f"emoji {WORKER}"
            server = server_of(connection)
            waiting_for_it = Statement("SELECT GET_LOCK(%s, 60), '😀'", (name,))
            in_line = f"SELECT COUNT(*) FROM {MYSQL_PROCESS_LIST} WHERE id = %s AND state LIKE 'User%%lock'"
            assert ask(session, waiting_for_it) == (1, "😀")
            with aside() as other:
                waiting = other.begin(lambda: ask(connection, waiting_for_it))
                while ask(connection, Statement(in_line, (other.session,))) != (1,):
                    assert not waiting.done()
                found = {
                    number
                    for _server, number in DjangoSession("default").fetch(server.sessions.existing([other.session]))
                }
                assert other.session in found
                assert blind_spots(DjangoSession("default")) == []
                ask(session, Statement("SELECT RELEASE_LOCK(%s)", (name,)))
                assert waiting.result(patience(60)) == (1, "😀")
