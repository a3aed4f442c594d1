"""Each kind of error has one row per queue, whoever comes first; a row that went is made anew."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.conf import settings
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from django_dbqueue.failures.failure_group_rows import failure_ids
from django_dbqueue.lifecycle import expired_rows
from django_dbqueue.models import Failure, MessageEvent
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.worker.maintenance import Maintenance
from tests.concurrency.steps import meet
from tests.lifecycle.rollback import rolled_back
from tests.patience import patience

pytestmark = pytest.mark.django_db(transaction=True)
A, B, C = "KeyError: 1", "TimeoutError: 2", "no such user 3"


def ids(*errors: tuple[str, str | None]) -> list[int | None]:
    return failure_ids(DjangoSession("default"), errors)


def groups() -> list[tuple[str, str]]:
    return sorted(Failure.objects.values_list("queue", "exception"))


def test_each_error_gets_the_id_of_its_kind_in_its_queue() -> None:
    found = ids(("q", A), ("q", B), ("r", A), ("q", "KeyError: another"))
    assert len(set(found)) == 3
    assert found[0] == found[3]
    assert groups() == [("q", "KeyError"), ("q", "TimeoutError"), ("r", "KeyError")]
    assert ids(("r", A), ("q", B)) == [found[2], found[1]]
    assert Failure.objects.count() == 3


def test_no_error_has_no_group() -> None:
    assert ids(("q", None), ("q", ""), ("q", " \n")) == [None, None, None]
    assert ids() == []
    assert not Failure.objects.exists()


def test_a_group_that_is_there_costs_one_read_for_each_queue() -> None:
    ids(("q", A), ("q", B))
    with CaptureQueriesContext(connection) as queries:
        ids(("q", A), ("q", B), ("q", A))
    assert len(queries) == 1


def test_a_group_of_a_transaction_that_rolls_back_is_made_again() -> None:
    with rolled_back():
        [lost] = ids(("q", A))
        assert ids(("q", A)) == [lost]
    assert not Failure.objects.exists()
    [found] = ids(("q", A))
    assert Failure.objects.get().pk == found


def test_a_group_of_a_savepoint_that_rolls_back_is_made_again_in_the_same_transaction() -> None:
    with transaction.atomic():
        with rolled_back():
            ids(("q", A))
        [found] = ids(("q", A))
    assert Failure.objects.get().pk == found


@pytest.mark.parametrize("whole_table", [False, True])
def test_a_group_that_somebody_deleted_is_made_again(whole_table: bool) -> None:
    ids(("q", A))
    if whole_table:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM django_dbqueue_failure")
    else:
        Failure.objects.all().delete()
    [found] = ids(("q", A))
    assert Failure.objects.get().pk == found


def test_old_groups_without_an_event_are_forgotten_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expired_rows, "GROUPS", 2)
    [old], [kept], [second], [young] = (ids(error) for error in (("q", A), ("q", B), ("r", A), ("r", B)))
    MessageEvent.objects.create(message_id=1, queue="q", kind="failed", failure_id=kept)
    Failure.objects.exclude(pk=young).update(first_at=clock("default") - timedelta(days=31))
    after = expired_rows.forget_failures(DjangoSession("default"), age=30 * 86_400)
    assert sorted(Failure.objects.values_list("pk", flat=True)) == [kept, second, young]
    after = expired_rows.forget_failures(DjangoSession("default"), age=30 * 86_400, after=after)
    assert sorted(Failure.objects.values_list("pk", flat=True)) == [kept, young]
    assert expired_rows.forget_failures(DjangoSession("default"), age=30 * 86_400, after=after) == 0
    assert ids(("q", A)) != [old]


def test_maintenance_forgets_groups() -> None:
    ids(("q", A))
    Failure.objects.update(first_at=clock("default") - timedelta(days=31))
    maintenance = Maintenance(session_of("default"), ("q",))
    maintenance.run(0.0)
    maintenance.run(61.0)
    assert not Failure.objects.exists()


def test_names_are_compared_exactly() -> None:
    assert len(set(ids(("q", "KeyError"), ("q", "keyerror"), ("Q", "KeyError")))) == 3


def test_whoever_comes_second_waits_and_has_the_row_of_the_first() -> None:
    met = meet(lambda: ids(("q", A)), lambda: ids(("q", A)), waits=connection.vendor != "sqlite")
    assert met.first == met.second
    assert Failure.objects.get().pk == met.second[0]


def test_whoever_comes_second_makes_the_row_where_the_first_rolls_back() -> None:
    met = meet(lambda: ids(("q", A)), lambda: ids(("q", A)), then_roll_back=True, waits=connection.vendor != "sqlite")
    assert [Failure.objects.get().pk] == met.second


def test_another_kind_waits_for_none() -> None:
    # Names of their own: InnoDB locks what a deleted row of the same name has left behind, until it is purged
    met = meet(lambda: ids(("mine", A)), lambda: ids(("mine", B), ("yours", A)), waits=False)
    assert {*met.first, *met.second} == set(Failure.objects.values_list("pk", flat=True))


@pytest.mark.parametrize("in_atomic", [False, True])
def test_many_who_meet_the_same_kinds_in_any_order_have_the_same_rows(in_atomic: bool) -> None:
    start, errors = Barrier(8), [("q", f"{letter} is missing") for letter in "abcdefghijklmnopqrst"]

    def find(turn: int) -> list[int | None]:
        mine = errors[turn:] + errors[:turn]
        try:
            start.wait(patience(60))
            if not in_atomic:
                found = failure_ids(DjangoSession("default"), mine)
            else:
                with transaction.atomic():
                    found = failure_ids(DjangoSession("default"), mine)
            return found[len(errors) - turn :] + found[: len(errors) - turn]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(find, range(8)))
    assert all(each == found[0] for each in found)
    assert sorted(Failure.objects.values_list("pk", flat=True)) == sorted(each for each in found[0] if each)


if settings.TEST_DATABASE in {"mysql", "mariadb"}:

    def test_a_transaction_that_sees_the_past_finds_the_row_all_the_same() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        with transaction.atomic():
            assert not Failure.objects.exists()
            with ThreadPoolExecutor(1) as thread:
                [made] = thread.submit(ids, ("q", A)).result()
                thread.submit(connections.close_all).result()
            assert not Failure.objects.exists()
            assert ids(("q", A)) == [made]
