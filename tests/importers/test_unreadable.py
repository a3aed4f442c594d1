"""JSON that a database takes and Python doesn't: such a row stays, and stops no other one."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, models, transaction

from django_dbqueue.models import Message
from tests.commands.running import run
from tests.importers.others import Other, imported

pytestmark = pytest.mark.django_db(transaction=True)
DEEP = 2_000


def stored(table: type[models.Model], column: str, text: str) -> bool:
    """Write the text into the column of all rows; return whether the server takes it."""
    names = map(connection.ops.quote_name, (table._meta.db_table, column))
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("UPDATE {} SET {} = %s".format(*names), [text])
    except DatabaseError:
        return False
    return True


@pytest.mark.parametrize("text", ["[1" + "0" * 5_000 + "]", "[" * DEEP + "]" * DEEP], ids=["digits", "depth"])
@pytest.mark.parametrize("dry", [False, True])
def test_it_stays_with_its_reason_and_stops_no_other_row(other: Other, text: str, *, dry: bool) -> None:
    columns = [each.name for each in other.table._meta.get_fields() if isinstance(each, models.JSONField)]
    wanted = next((each for each in columns if each in ("args", "args_kwargs", "workspace")), None)
    other.enqueue([0])
    if wanted is None or not stored(other.table, wanted, text):
        pytest.skip("there is no such column, or the server refuses the value")
    [odd] = other.waiting()
    other.enqueue([1])
    ended = run("queue_import", other.name, "--json", "--dry-run" if dry else "--yes")
    assert (ended.code, ended.document["taken"]) == (1, 1)
    [reason] = ended.document["reasons"]
    assert (reason["row"], reason["count"]) == (odd, 1)
    assert reason["why"].startswith(f"Its column {wanted} can't be read")
    if not dry:
        assert other.waiting() == {odd}
        assert odd not in imported(other.name)
        assert Message.objects.count() == 1
