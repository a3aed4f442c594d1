"""What the doctor finds about the history's table, and its partitions."""

from __future__ import annotations

import pytest
from django.db import connection

from django_dbqueue.databases.partitioning_sql import OLD_TABLE, TABLE
from django_dbqueue.doctor import archive_checks
from django_dbqueue.history import partitioned
from tests.doctor.conftest import examined, levels, run, wrong
from tests.history.partitioned_history import SESSION, archive_at, in_partitions, one_table, partition, record_purged
from tests.spark.archives import archive

__all__ = ["in_partitions", "one_table"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.usefixtures("one_table")
def test_a_large_table_from_which_rows_are_deleted_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_checks, "LARGE", 10)
    archive_at(1, 20)
    assert levels(examined(), "archive") == ["ok"], "nobody purges it"
    record_purged(1)
    assert levels(examined(), "archive") == ["warning"]
    partition()
    assert levels(examined(), "archive") == ["ok"]


@pytest.mark.usefixtures("in_partitions")
def test_partitions_that_are_not_kept_are_a_warning() -> None:
    archive_at(1_999, 2_001)
    assert "needs 1 more" in examined()["archive"][0].found
    archive_at(5_000)
    assert levels(examined(), "archive") == ["warning"]
    assert "last partition" in examined()["archive"][0].found
    partitioned.keep(SESSION)
    found = examined()
    assert levels(found, "archive") == ["ok"]
    assert not {"storage", "indexes", "migrations", "collations"} & {*wrong(found)}
    record_purged(1_999)
    assert levels(examined(), "archive") == ["note"]
    partitioned.keep(SESSION)
    assert levels(examined(), "archive") == ["ok"]


@pytest.mark.skipif(connection.vendor == "postgresql", reason="There it is one transaction")
@pytest.mark.usefixtures("one_table")
def test_a_table_that_a_killed_command_has_left_without_its_name_is_a_problem() -> None:
    archive(1)
    run(connection, f"RENAME TABLE {TABLE} TO {OLD_TABLE}")
    assert levels(examined(), "archive") == ["problem"]
    partitioned.keep(SESSION)
    assert levels(examined(), "archive") == ["ok"]
