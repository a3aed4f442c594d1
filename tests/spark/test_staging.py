"""A run's stage and its publication: once for each name of a job, whatever happens to whom."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection as django_connection
from django.db import transaction

from django_dbqueue.databases import Statement
from django_dbqueue.envelope import Envelope
from django_dbqueue.exceptions import DatabaseAway, DBQueueError
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import Message, PublishedJob, StagedMessage
from django_dbqueue.spark import publication, staging_sql
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.publication import Published, TaskAttempt
from tests.factories import MessageFactory
from tests.patience import patience
from tests.spark.staging import QUEUE, connect, number, stage

pytestmark = pytest.mark.django_db(transaction=True)


def publish(*attempts: TaskAttempt, run: int, job: str = "job") -> Published:
    return publication.publish(credentials_of("default"), job=job, run=run, attempts=attempts, outage=patience(60))


INDEX = {
    "sqlite": "sqlite_autoindex_django_dbqueue_stagedmessage_1",
    "postgres": "django_dbqueue_stagedmessage_pkey",
}.get(settings.TEST_DATABASE, "PRIMARY")


def payloads() -> list[Any]:
    return [message.payload for message in Message.objects.order_by("pk")]


def test_a_stage_is_published_in_the_order_of_tasks_and_rows_and_is_gone_then() -> None:
    run = number()
    later, sooner = stage(["c", "d"], run=run), stage(["a", "b"], run=run)
    assert publish(sooner, later, run=run) == Published("job", created=4, ignored=0, again=False)
    assert payloads() == ["a", "b", "c", "d"]
    assert not StagedMessage.objects.exists()
    assert PublishedJob.objects.values_list("name", "run", "created", "ignored").get() == ("job", run, 4, 0)


def test_a_long_stage_is_published_by_statements_of_bounded_length_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "_PUBLISHED_AT_ONCE", 3)
    run = number()
    keyed = [Envelope(place, key=f"k{place % 5}") for place in range(7)]
    published = publish(stage(range(6), run=run), stage(keyed, run=run), run=run)
    assert published == Published("job", created=11, ignored=2, again=False)
    assert payloads() == [*range(6), *range(5)]


def test_what_is_staged_is_not_seen() -> None:
    stage(["a"], run=number())
    assert not Message.objects.claim(1, queue=QUEUE, lease=60)


def test_of_two_tries_of_one_task_only_the_winner_is_published() -> None:
    run = number()
    loser, winner = stage(["a", "b"], run=run), stage(["a", "b", "c"], run=run)
    assert publish(winner, run=run).created == 3
    assert payloads() == ["a", "b", "c"]
    assert not StagedMessage.objects.exists()
    assert loser.number != winner.number


def test_the_same_job_adds_nothing_after_workers_have_finished_what_it_sent() -> None:
    """1,000 keyed messages must not become 1,300, though 300 of their keys are free again."""
    envelopes = [Envelope(number, key=f"k{number}") for number in range(1000)]
    first, second = number(), number()
    assert publish(stage(envelopes, run=first), run=first).created == 1000
    Message.objects.ack(Message.objects.claim(300, queue=QUEUE, lease=60))
    again = publish(stage(envelopes, run=second), run=second)
    assert again == Published("job", created=1000, ignored=0, again=True)
    assert Message.objects.count() == 1000
    assert not StagedMessage.objects.exists()


def test_keys_in_use_are_left_out_and_counted_whoever_took_them() -> None:
    run = number()
    MessageFactory(queue=QUEUE, key="taken", payload="first")
    MessageFactory(queue="elsewhere", key="free", payload="elsewhere")
    attempts = [
        stage([Envelope("x", key="taken"), Envelope("y", key="twice"), Envelope("z", key="TWICE")], run=run),
        stage([Envelope("not", key="twice"), Envelope("free", key="free"), "no key", "no key"], run=run),
    ]
    assert publish(*attempts, run=run) == Published("job", created=5, ignored=2, again=False)
    assert payloads() == ["first", "elsewhere", "y", "z", "free", "no key", "no key"]


def test_another_jobs_stage_stays_untouched() -> None:
    mine, theirs = number(), number()
    attempt = stage(["theirs"], run=theirs, job="other")
    publish(stage(["mine"], run=mine), run=mine)
    assert StagedMessage.objects.count() == 1
    publish(attempt, run=theirs, job="other")
    assert payloads() == ["mine", "theirs"]


def test_a_stage_that_lacks_rows_is_not_published() -> None:
    run = number()
    attempt = stage(["a", "b"], run=run)
    StagedMessage.objects.order_by("pk")[:1].get().delete()
    with pytest.raises(DBQueueError, match="staged 2 messages, but 1 are there"):
        publish(attempt, run=run)
    assert not Message.objects.exists()
    assert not PublishedJob.objects.exists()


def test_of_two_runs_of_one_job_at_once_one_publishes_and_the_other_adds_nothing() -> None:
    runs = [number(), number()]
    attempts = [stage([f"{place}-{row}" for row in range(50)], run=run) for place, run in enumerate(runs)]
    barrier = threading.Barrier(2)

    def one(place: int) -> Published:
        barrier.wait()
        return publish(attempts[place], run=runs[place])

    with ThreadPoolExecutor(2) as pool:
        published = list(pool.map(one, range(2)))
    assert sorted(each.again for each in published) == [False, True]
    winner = [each.again for each in published].index(False)
    assert payloads() == [f"{winner}-{row}" for row in range(50)]
    assert not StagedMessage.objects.exists()


def test_a_run_that_waits_for_another_publishes_when_that_one_rolls_back() -> None:
    run = number()
    attempt = stage(["a"], run=run)
    with connect() as other, ThreadPoolExecutor(1) as pool:
        with suppress(ZeroDivisionError), other.transaction():
            other.run(staging_sql.name_job(other.server, "job", number(), 5))
            waiting = pool.submit(publish, attempt, run=run)
            raise ZeroDivisionError
        assert waiting.result(timeout=patience(30)) == Published("job", created=1, ignored=0, again=False)


def test_a_commit_whose_reply_was_lost_is_found_by_the_run_and_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = iter([True])

    @contextmanager
    def transaction_without_reply(self: Connection) -> Iterator[None]:
        with real(self):
            yield
        if next(lost, False):
            raise DatabaseAway("as a server says that ends here")

    real = Connection.transaction
    monkeypatch.setattr(Connection, "transaction", transaction_without_reply)
    run = number()
    assert publish(stage(["a", "b"], run=run), run=run) == Published("job", created=2, ignored=0, again=False)
    assert payloads() == ["a", "b"]


if settings.TEST_DATABASE != "sqlite":  # which has no sessions to end

    def test_a_session_that_is_ended_inside_the_publication_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
        doomed = iter([True])

        def end_its_session(connection: Connection, *args: Any) -> None:
            if next(doomed, False):
                [(session,)] = connection.fetch(Statement(f"SELECT {connection.server.session_id}", ()))
                with connect() as other:
                    if other.vendor == "mysql":
                        other.run(Statement(f"KILL CONNECTION {session:d}", ()))
                    else:
                        other.fetch(Statement("SELECT pg_terminate_backend(%s)", (session,)))
            real(connection, *args)

        real = publication._refuse_missing_rows
        monkeypatch.setattr(publication, "_refuse_missing_rows", end_its_session)
        run = number()
        assert publish(stage(["a", "b"], run=run), run=run).created == 2
        assert payloads() == ["a", "b"]
        assert next(doomed, None) is None


def test_the_stage_of_a_killed_driver_is_purged_by_its_age_and_that_of_a_slow_one_is_not() -> None:
    killed, slow, fresh = number(), number(), number()
    stage(["a"], run=killed)
    stage(["a", "b"], run=killed)
    stage(["begun long ago"], run=slow)
    StagedMessage.objects.update(staged_at=staged_ago(days=8))
    stage(["but working still"], run=slow)
    stage(["new"], run=fresh)
    assert publication.purge_abandoned(credentials_of("default")) == 3
    assert set(StagedMessage.objects.values_list("run", flat=True)) == {slow, fresh}
    assert StagedMessage.objects.count() == 3


def staged_ago(**age: float) -> Any:
    newest = StagedMessage.objects.latest("staged_at").staged_at
    return newest - timedelta(**age)


def test_a_publication_walks_over_a_stage_of_others_by_its_index() -> None:
    runs = [number() for _ in range(20)]
    for run in runs:
        stage(["a"] * 100, run=run)
    server = connect_server()
    statements = [
        staging_sql.next_attempt(server, runs[3], 5),
        staging_sql.is_abandoned(server, runs[3], 5, 1.0),
        staging_sql.count_staged(server, runs[3]),
    ]
    for statement in statements:
        assert INDEX in plan_of(statement), statement.sql


def connect_server() -> Any:
    with connect() as connection:
        return connection.server


def plan_of(statement: Statement) -> str:
    verb = "EXPLAIN QUERY PLAN" if django_connection.vendor == "sqlite" else "EXPLAIN"
    with transaction.atomic(), django_connection.cursor() as cursor:
        if django_connection.vendor == "postgresql":
            cursor.execute("ANALYZE django_dbqueue_stagedmessage")
        cursor.execute(f"{verb} {statement.sql}", statement.params)
        return str(cursor.fetchall())
