"""One archiver at a time, so that the ids of the history grow in the order of the commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from django.db import OperationalError, connection, transaction
from django.test import override_settings

from django_dbqueue.models import ArchivedMessage, Message, Mutex
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.sessions.retry import is_passing
from django_dbqueue.worker.maintenance import Maintenance
from tests.concurrency.steps import aside, meet, outcome
from tests.factories import QUEUE, dead, done, held, rows

pytestmark = pytest.mark.django_db(transaction=True)
WAITS = connection.vendor != "sqlite"
"""SQLite's second writer waits at the door, where nobody sees it."""


def archive() -> int:
    return Message.objects.archive(QUEUE, older_than=0)


def purge() -> int:
    return Message.objects.all().purge()


def history() -> list[int]:
    return list(ArchivedMessage.objects.order_by("pk").values_list("message_id", flat=True))


@pytest.fixture(params=[False, True], ids=["the first ever", "not the first"])
def has_archived_before(request: pytest.FixtureRequest) -> bool:
    """The mutex's row comes with the first archiver, who may be in the middle of it."""
    assert not Mutex.objects.exists()
    if request.param:
        done(queue="before")
        Message.objects.archive("before", older_than=0)
        assert Mutex.objects.count() == 1
    return bool(request.param)


def and_one_more(archiver: Callable[[], int]) -> int:
    done()
    return archiver()


@pytest.mark.parametrize("is_rolled_back", [False, True])
@pytest.mark.parametrize(("first", "second"), [(archive, archive), (archive, purge), (purge, archive), (purge, purge)])
def test_the_second_archiver_waits_for_the_firsts_end_and_moves_what_it_left(
    first: Callable[[], int], second: Callable[[], int], is_rolled_back: bool, has_archived_before: bool
) -> None:
    messages = [done(), done()]
    met = meet(first, lambda: and_one_more(second), then_roll_back=is_rolled_back, waits=WAITS)
    # A rollback takes back the new mutex, for which the second waits, and only then frees the rows: those are skipped.
    missed = second() if WAITS and is_rolled_back and not has_archived_before else 0
    assert (met.first, met.second + missed) == (2, 3 if is_rolled_back else 1)
    assert met.second >= 1, "its own message is free"
    moved = history()[-3:]
    assert (sorted(moved) if missed else moved)[:2] == [message.pk for message in messages]
    assert rows() == []


@override_settings(DBQUEUE={"DEFAULTS": {"retention": 0, "dead_retention": 0}})
def test_a_workers_maintenance_passes_by_while_another_archiver_is_at_it_and_comes_again() -> None:
    done(queue="before")
    Message.objects.archive("before")
    done()
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    maintenance.run(0.0)
    before = len(history())

    def maintain() -> int:
        done()
        dead()
        maintenance.run(1_000.0)
        return Message.objects.count()

    met = meet(purge, maintain, waits=False)
    assert met.first == 1
    if WAITS:
        assert met.second == 3, "the purged row is there until its commit, and the new ones stay"
    maintenance.run(2_000.0)
    assert rows() == []
    assert len(history()) == before + 3


def test_the_archive_passes_by_what_a_handler_has_acked_and_not_committed() -> None:
    """Who has the mutex must not wait for a handler that takes hours."""
    ended = {done().pk, done().pk}
    holder = held()
    met = meet(holder.ack, archive, waits=False)
    assert met.second == (2 if WAITS else 3)
    assert set(history()) >= ended
    assert Message.objects.count() == (1 if WAITS else 0)


if WAITS:  # SQLite has no such levels
    REPEATABLE_READ = {
        "mysql": "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    }

    @pytest.fixture
    def repeatable_read() -> Iterator[None]:
        with connection.cursor() as cursor:
            cursor.execute(REPEATABLE_READ[connection.vendor])
        yield
        connection.close()

    @pytest.mark.usefixtures("repeatable_read")
    def test_in_a_callers_transaction_with_an_old_view_nothing_is_moved_twice_and_nothing_waits_for_ever() -> None:
        """The view is older than the mutex, and than the other's move: it ends, or says that it must begin anew."""
        messages = [done(), done()]
        with aside() as other, suppress(OperationalError), transaction.atomic():
            assert Message.objects.count() == 2
            assert other.do(archive) == 2
            ended = outcome(archive)
            if isinstance(ended, Exception):
                assert is_passing(ended)
                raise ended
            assert ended == 0
        assert history() == [message.pk for message in messages]
        done()
        assert archive() == 1
        assert len(history()) == 3

    @pytest.mark.usefixtures("repeatable_read")
    @pytest.mark.parametrize("first", [archive, purge])
    def test_sessions_of_another_isolation_level_wait_for_each_other_as_well(first: Callable[[], int]) -> None:
        def with_another_level() -> int:
            with connection.cursor() as cursor:
                cursor.execute(REPEATABLE_READ[connection.vendor])
            return and_one_more(archive)

        done()
        met = meet(first, with_another_level, waits=True)
        assert met.first == 1
        assert met.second == 1
        assert len(history()) == 2
