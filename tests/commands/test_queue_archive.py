"""What ``queue_archive`` says, and what it refuses. What it does, tests/history/test_partitioning.py shows."""

from __future__ import annotations

import pytest
from django.db import connection

from django_dbqueue.history import partitioned
from tests.commands.running import run
from tests.history.partitioned_history import archive_at, in_partitions, names, one_table

__all__ = ["in_partitions", "one_table"]
pytestmark = pytest.mark.django_db(transaction=True)
on_servers = pytest.mark.skipif(connection.vendor == "sqlite", reason="It has no partitions")


@pytest.mark.skipif(connection.vendor != "sqlite", reason="The others have partitions")
@pytest.mark.parametrize("arguments", [("status",), ("partition", "--yes"), ("partition", "--undo", "--yes")])
def test_sqlite_has_no_partitions(arguments: tuple[str, ...]) -> None:
    refused = run("queue_archive", *arguments)
    assert (refused.code, "SQLite has no partitions" in refused.err) == (1, True)


@on_servers
def test_it_shows_each_partition_and_when_it_began(in_partitions: None) -> None:
    archive_at(1_500, 2_001)
    shown = run("queue_archive", "status", "--json").document["partitions"]
    assert [(each["name"], each["from"], each["before"]) for each in shown] == [
        ("until_2000", None, 2_000), ("until_3000", 2_000, 3_000), ("until_4000", 3_000, 4_000), ("rest", 4_000, None)
    ]  # fmt: skip
    assert [each["began_at"] is not None for each in shown] == [True, True, False, False]
    assert "until_3000  2,000   3,000" in run("queue_archive", "status").out


@on_servers
def test_it_shows_what_it_would_do(one_table: None) -> None:
    document = run("queue_archive", "partition", "--every", "1000", "--dry-run", "--json").document
    assert document == {"dry_run": True, "before": [2_000, 3_000, 4_000]}
    assert names() == []
    assert run("queue_archive", "partition").code == 2, "nobody can be asked"
    assert "one table" in run("queue_archive", "status").out


@on_servers
def test_partitions_keep_their_size(in_partitions: None) -> None:
    refused = run("queue_archive", "partition", "--every", "5000", "--yes")
    assert (refused.code, "of another size" in refused.err) == (2, True)
    assert run("queue_archive", "partition", "--undo", "--dry-run").code == 2


@on_servers
def test_what_would_not_come_along_is_refused(one_table: None) -> None:
    table = "django_dbqueue_archivedmessage"
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute(f"CREATE TABLE referring (id BIGINT, FOREIGN KEY the_key (id) REFERENCES {table} (id))")
        else:
            cursor.execute(f"CREATE TABLE referring (id BIGINT CONSTRAINT the_key REFERENCES {table} (id))")
        try:
            refused = run("queue_archive", "partition", "--yes")
        finally:
            cursor.execute("DROP TABLE referring")
    assert (refused.code, "foreign key" in refused.err, names()) == (1, True, [])


@on_servers
def test_a_table_that_somebody_reads_for_long_is_left_alone(
    one_table: None, other_connection: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioned.in_turn.__wrapped__, "__kwdefaults__", {"tries": 1})  # type: ignore[attr-defined]
    with other_connection.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute("BEGIN")
        cursor.execute("SELECT COUNT(*) FROM django_dbqueue_archivedmessage")
        cursor.fetchall()
        refused = run("queue_archive", "partition", "--yes")
        assert (refused.code, "Nothing was changed" in refused.err, names()) == (1, True, [])
        cursor.execute("ROLLBACK")
    assert run("queue_archive", "partition", "--yes").code == 0
