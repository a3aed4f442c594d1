"""JSON that a database takes and Python doesn't: such a row stays, and stops no other one."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.db import DatabaseError, connection, models, transaction

from django_dbqueue.models import Message
from tests.commands.running import run
from tests.importers.others import Other, imported

pytestmark = pytest.mark.django_db(transaction=True)
DEEP = 2_000
COLUMNS = {"django-db-queue": "workspace", "django-ox": "args", "django-tasks-db": "args_kwargs"}
TEXTS = {
    "digits": ("[1" + "0" * 5_000 + "]", {"sqlite", "mariadb", "postgres"}),
    "depth": ("[" * DEEP + "]" * DEEP, {"sqlite", "postgres"}),
}
"""What Python can't read, and which servers store it; the others refuse it."""


def stored(table: type[models.Model], column: str, text: str) -> bool:
    """Write the text into the column of all rows; return whether the server takes it."""
    names = map(connection.ops.quote_name, (table._meta.db_table, column))
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("UPDATE {} SET {} = %s".format(*names), [text])
    except DatabaseError:
        return False
    return True


@pytest.mark.parametrize("other", sorted(COLUMNS), indirect=True)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dry", [False, True])
def test_it_stays_with_its_reason_and_stops_no_other_row(other: Other, text: str, *, dry: bool) -> None:
    column, (value, servers) = COLUMNS[other.name], TEXTS[text]
    other.enqueue([0])
    assert stored(other.table, column, value) == (settings.TEST_DATABASE in servers)
    if settings.TEST_DATABASE not in servers:
        return
    [odd] = other.waiting()
    other.enqueue([1])
    ended = run("queue_import", other.name, "--json", "--dry-run" if dry else "--yes")
    assert (ended.code, ended.document["taken"]) == (1, 1)
    [reason] = ended.document["reasons"]
    assert (reason["row"], reason["count"]) == (odd, 1)
    assert reason["why"].startswith(f"Its column {column} can't be read")
    if not dry:
        assert other.waiting() == {odd}
        assert odd not in imported(other.name)
        assert Message.objects.count() == 1
