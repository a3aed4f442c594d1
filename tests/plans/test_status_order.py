"""In InnoDB's claim index the rows that wait stand last, so that no dead entry of what was taken lies behind them."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from django_dbqueue.models import Message
from tests.factories import done, held, waiting

pytestmark = pytest.mark.django_db(transaction=True)
LAST_IS_NEW = ["y", "run", "n"]


def sorted_statuses() -> list[str]:
    return list(Message.objects.order_by("status").values_list("status", flat=True))


@pytest.fixture(autouse=True)
def one_of_each() -> None:
    waiting()
    held()
    done()


def test_the_rows_that_wait_stand_last() -> None:
    assert sorted_statuses() == LAST_IS_NEW


def test_the_migration_sorts_a_table_anew_and_keeps_its_rows() -> None:
    before = list(Message.objects.order_by("pk").values())
    with connection.schema_editor() as editor:
        editor.execute(
            "ALTER TABLE django_dbqueue_message MODIFY status enum('n', 'run', 'y') "
            "CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'n'"
        )
        assert sorted_statuses() == LAST_IS_NEW[::-1]
        import_module("django_dbqueue.migrations.0007_status_order").sort_as_the_field_says(apps, editor)
    assert sorted_statuses() == LAST_IS_NEW
    assert list(Message.objects.order_by("pk").values()) == before
    assert Message.objects.enqueue("new").status == "n"
