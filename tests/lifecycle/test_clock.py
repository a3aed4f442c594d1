"""Whose clock: the database's, in UTC, whatever clients, settings and sessions say (P13)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test import override_settings
from django.utils import timezone

from django_dbqueue.models import ArchivedMessage, Message, Queue
from django_dbqueue.models.fields import DbNow
from tests.factories import QUEUE, claim_one, done, held, row, waiting
from tests.patience import patience

pytestmark = pytest.mark.django_db(transaction=True)

SLACK = timedelta(minutes=2)
"""How far a busy machine may fall behind within a test; every wrong clock here is wrong by hours."""


@contextmanager
def client_clock(monkeypatch: pytest.MonkeyPatch, wrong_by: timedelta) -> Iterator[None]:
    real_time, real_datetime = time.time, datetime

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return real_datetime.now(tz) + wrong_by

    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real_time() + wrong_by.total_seconds())
        patch.setattr("django.utils.timezone.datetime", Wrong)
        patch.setattr("django_dbqueue.claims.claim_rows.datetime", Wrong)
        yield


@contextmanager
def client_zone(monkeypatch: pytest.MonkeyPatch, zone: str) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        yield
    time.tzset()


@contextmanager
def database_zone(zone: str) -> Iterator[None]:
    """DATABASES['default']['TIME_ZONE'], as Django lets projects say it for MySQL and SQLite."""
    before = connection.settings_dict["TIME_ZONE"]
    connection.close()
    connection.settings_dict["TIME_ZONE"] = zone
    forget_zone()
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["TIME_ZONE"] = before
        forget_zone()


def forget_zone() -> None:
    """Have Django read the setting again: it keeps the zone in the connection, for which ``connection`` only stands."""
    kept = vars(connections[connection.alias])
    for name in ("timezone", "timezone_name"):
        kept.pop(name, None)


@contextmanager
def no_zones() -> Iterator[None]:
    with override_settings(USE_TZ=False):
        connection.close()
        yield
    connection.close()


@contextmanager
def session_zone(database: str, zone: str) -> Iterator[None]:
    """A session of the server in another zone, as a database administrator's init_connect makes it."""
    if database == "sqlite":
        yield  # has no sessions with zones
        return
    with connection.cursor() as cursor:
        if database == "postgres":
            cursor.execute("SELECT set_config('TimeZone', %s, false)", [zone.replace("+", "-")])
        else:
            cursor.execute("SET SESSION time_zone = %s", [f"{zone}:00"])
    try:
        yield
    finally:
        connection.close()


WRONG: dict[str, Any] = {
    "nothing": lambda patch, _: client_clock(patch, timedelta(0)),
    "a client an hour ahead": lambda patch, _: client_clock(patch, timedelta(hours=1)),
    "a client a day behind": lambda patch, _: client_clock(patch, timedelta(days=-1)),
    "a client in Kiritimati": lambda patch, _: client_zone(patch, "Pacific/Kiritimati"),
    "TIME_ZONE of the database": lambda _, __: database_zone("Asia/Kathmandu"),
    "USE_TZ off": lambda _, __: no_zones(),
    "a session at +05": lambda _, database: session_zone(database, "+05"),
    "a session at -11": lambda _, database: session_zone(database, "-11"),
    "a project in another TIME_ZONE": lambda _, __: override_settings(TIME_ZONE="Australia/Eucla"),
}


@pytest.fixture(params=WRONG)
def wrong(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, database: str) -> Iterator[None]:
    if "TIME_ZONE of the database" in request.param and database == "postgres":
        # Django takes the setting for PostgreSQL as the session's zone, which is the case of a session elsewhere.
        with session_zone(database, "+05"):
            yield
        return
    with WRONG[request.param](monkeypatch, database):
        yield


def seconds_from_now(moment: datetime) -> float:
    """By a clock that no test here touches."""
    return moment.timestamp() - time.clock_gettime(time.CLOCK_REALTIME)


def near(moment: datetime, seconds: float) -> bool:
    assert moment.utcoffset() is not None
    return abs(seconds_from_now(moment) - seconds) < SLACK.total_seconds()


def test_every_moment_of_a_row_is_utc_by_the_databases_clock(wrong: None) -> None:
    message = held(delay=0, lease=3600)
    for moment in (message.created_at, message.due_at, message.claimed_at):
        assert near(moment, 0)
    assert near(message.available_at, 3600)
    stored = row(message)
    for name in ("created_at", "due_at", "claimed_at"):
        assert near(stored[name], 0), name
    assert near(stored["available_at"], 3600)
    message.ack()
    assert near(row(message)["finished_at"], 0)
    assert Message.objects.archive(QUEUE, older_than=0) == 1
    history = ArchivedMessage.objects.get()
    for name in ("created_at", "due_at", "claimed_at", "finished_at", "archived_at"):
        assert near(getattr(history, name), 0), name


def test_a_delay_of_half_an_hour_is_half_an_hour(wrong: None) -> None:
    message = waiting(delay=1800)
    assert near(row(message)["due_at"], 1800)
    assert Message.objects.claim(1, queue=QUEUE) == []
    assert (Message.objects.ready(QUEUE).count(), Message.objects.delayed(QUEUE).count()) == (0, 1)


def test_what_is_due_now_is_given_out_now(wrong: None) -> None:
    waiting()
    assert (Message.objects.ready(QUEUE).count(), Message.objects.delayed(QUEUE).count()) == (1, 0)
    assert len(Message.objects.claim(1, queue=QUEUE)) == 1


def test_a_moment_half_an_hour_later_is_not_now_and_one_before_is(wrong: None) -> None:
    now = datetime.fromtimestamp(time.clock_gettime(time.CLOCK_REALTIME), UTC)
    later = waiting(payload="later", at=now + timedelta(minutes=30))
    waiting(payload="now", at=now - timedelta(minutes=30))
    assert near(row(later)["due_at"], 1800)
    assert [message.payload for message in Message.objects.claim(9, queue=QUEUE)] == ["now"]


def test_a_lease_of_half_an_hour_is_not_over_and_one_of_nothing_is(wrong: None) -> None:
    running = held(lease=1800)
    assert Message.objects.rescue() == 0
    assert (Message.objects.running(QUEUE).count(), Message.objects.stuck(QUEUE).count()) == (1, 0)
    running.extend(0)
    assert (Message.objects.running(QUEUE).count(), Message.objects.stuck(QUEUE).count()) == (0, 1)
    assert Message.objects.rescue() == 1


def test_an_extension_and_a_retry_count_from_the_databases_clock(wrong: None) -> None:
    message = held(lease=5)
    message.extend(1800)
    assert near(row(message)["available_at"], 1800)
    message.nack(delay=1800)
    assert near(row(message)["due_at"], 1800)
    assert Message.objects.claim(1, queue=QUEUE) == []


def test_the_history_takes_what_is_old_by_the_databases_clock(wrong: None) -> None:
    done()
    assert Message.objects.archive(QUEUE, older_than=1800) == 0
    assert Message.objects.archive(QUEUE, older_than=0) == 1


def test_a_pause_is_noted_by_the_databases_clock(wrong: None) -> None:
    Queue.objects.pause(QUEUE)
    paused_at = Queue.objects.get(pk=QUEUE).paused_at
    assert paused_at is not None
    assert near(paused_at, 0)


def test_a_moment_written_by_the_orm_comes_back_the_same(wrong: None) -> None:
    message = waiting()
    moment = datetime(2031, 7, 1, 12, 30, 15, 250_000, tzinfo=UTC)
    Message.objects.filter(pk=message.pk).update(available_at=moment)
    assert row(message)["available_at"] == moment
    assert Message.objects.filter(available_at=moment).count() == 1
    assert Message.objects.filter(available_at__lt=moment).count() == 0


def now_by_the_database() -> Any:
    sql, _ = DbNow().as_sql(None, connection)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {sql}, {sql}".replace("%%", "%"))
        first, second = cursor.fetchone()
    assert first == second, "within a statement it stands still"
    return first


def test_the_clock_moves_on_within_a_transaction() -> None:
    """Else what is enqueued at the end of a long one would be due at its beginning, below a claim's mark."""
    end = time.monotonic() + patience(10)
    with transaction.atomic():
        began = now_by_the_database()
        while now_by_the_database() == began:
            assert time.monotonic() < end, "it stands still"


def test_the_tests_own_zone_is_not_utc() -> None:
    assert timezone.get_default_timezone_name() == "America/New_York"
    assert os.environ.get("TZ") != "UTC"


def test_claims_and_rows_agree_to_the_millisecond() -> None:
    waiting()
    message = claim_one()
    assert message.claimed_at is not None
    assert abs(row(message)["claimed_at"] - message.claimed_at) < timedelta(milliseconds=2)
