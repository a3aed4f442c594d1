"""MySQL's optimizer believes InnoDB's row count, from which a DELETE is missing even after its rollback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from django_dbqueue.databases import Statement, server_of
from django_dbqueue.models import Message
from tests.factories import waiting
from tests.plans import crowd
from tests.plans.plan import cost_of

pytestmark = pytest.mark.django_db(transaction=True)
ROWS = 5


@pytest.fixture
def delete_all(transactional_db: None) -> Iterator[Statement]:
    crowd.let_innodb_gather_statistics(by_itself=False)
    ids = [waiting().id for _ in range(ROWS)]
    crowd.gather_statistics()
    assert believed_count() == ROWS
    server = server_of(connection)
    yield server.delete_each(server.message, ("id",), [(each,) for each in ids])
    crowd.let_innodb_gather_statistics(by_itself=True)


def believed_count() -> int:
    Message.objects.first()  # opens the table, which reads what ANALYZE has found
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT num_rows FROM information_schema.innodb_tablestats WHERE name = CONCAT(DATABASE(), '/', %s)",
            [Message._meta.db_table],
        )
        return int(cursor.fetchone()[0])


def test_a_rollback_does_not_take_back_what_a_delete_took_from_the_count(delete_all: Statement) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(delete_all.sql, delete_all.params)
        transaction.set_rollback(True)
    assert Message.objects.count() == ROWS
    assert believed_count() == 0


def test_the_cost_of_a_delete_is_found_without_a_change_to_the_count(delete_all: Statement) -> None:
    assert cost_of(connection, delete_all) > 0
    assert Message.objects.count() == ROWS
    assert believed_count() == ROWS
