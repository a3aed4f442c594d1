"""A person's messages leave the history and the lake, and nothing else does."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest
from django.conf import settings

from django_dbqueue.exceptions import InvalidPipeline, LakeDamaged
from django_dbqueue.models import ArchivedMessage, Message, MessageEvent, Result, Step
from tests import factories
from tests.spark.archives import NOON, archive, rows
from tests.spark.drivers.erasing import KEY, POINTS
from tests.spark.lakes import Lake, files_on_disk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]
ALWAYS = {"published"} if settings.TEST_DATABASE == "mariadb" else set()
PLACE = [field.name for field in ArchivedMessage._meta.concrete_fields].index("key")


def fill(lake: Lake, *, delta: bool = False) -> list[tuple[Any, ...]]:
    """Rows of the person, of others and of nobody, in three batches of the lake and in the archive."""
    for day in range(3):
        for key in (KEY, "another", None, f"{KEY} "):
            archive(2, queue="Q1", key=key, finished_at=NOON + timedelta(days=day))
    before = rows()
    lake.export(batch_rows=8, delta=delta)
    archive(1, queue="Q1", key=KEY)
    archive(1, queue="q2", key=KEY)
    archive(1, queue="q2", key="another")
    return before + rows()


def everything(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted(lake.rows + rows())


def keys_on_disk(lake: Lake) -> set[str | None]:
    """What any Parquet file below the root has as a key, read without any of our code."""
    return {
        key
        for path in files_on_disk(lake)
        if not path.startswith("_delta_log/")
        for key in pyarrow.parquet.ParquetFile(lake.root / path).read(["key"])["key"].to_pylist()
    }


@pytest.mark.once
def test_what_has_the_key_is_gone_from_archive_and_lake_and_all_else_is_as_it_was(lake: Lake) -> None:
    before = fill(lake, delta=True)
    for message in (1, 2, 9):
        MessageEvent.objects.create(message_id=message, queue="Q1", kind="done")
    Result.objects.create(message_id=1, body="{}", content_type="json", expires_at=NOON)
    Step.objects.create(message_id=1, name="s", kind="value", token=1, read_count=1)
    lake.compact()

    counted = lake.erase(KEY, dry_run=True)
    assert (counted.archived, counted.exported, counted.files) == (2, 6, 3)
    assert everything(lake) == before

    lake.delta.create_checkpoint()
    result = lake.erase(KEY)
    assert (result.archived, result.exported, result.files) == (2, 6, 3)
    assert everything(lake) == [row for row in before if row[PLACE] != KEY]
    lake.require_log_in_step()
    assert '"dataChange":false' not in lake.newest_commit()
    assert not any(KEY in path.read_text() for path in (lake.root / "_delta_log").glob("*.json"))
    assert keys_on_disk(lake) == {"another", None, f"{KEY} "}
    assert list(MessageEvent.objects.values_list("message_id", flat=True)) == [9]
    assert not Result.objects.exists()
    assert not Step.objects.exists()
    [record] = (lake.root / "_erasures").glob("*.json")
    assert KEY not in record.read_text()
    assert json.loads(record.read_text())["exported"] == 6
    assert lake.erase(KEY).exported == 0

    assert lake.export().purged == 1
    lake.require_log_in_step()
    assert lake.delta.to_pyarrow_dataset().count_rows() == len(lake.rows)
    assert everything(lake) == [row for row in before if row[PLACE] != KEY]


@pytest.mark.once
def test_several_keys_of_one_queue(lake: Lake) -> None:
    before = fill(lake)

    result = lake.erase(KEY, "another", queue=("q2",))
    assert (result.archived, result.exported) == (2, 0)
    assert everything(lake) == [row for row in before if row[3] != "q2"]


@pytest.mark.once
def test_a_batch_that_is_still_in_the_archive_is_purged_after_rows_were_erased(lake: Lake) -> None:
    archive(3, key=KEY)
    archive(3)
    lake.export(keep=True)

    assert lake.erase(KEY).archived == 3
    assert lake.export().purged == 3
    assert len(lake.rows) == 3


@pytest.mark.once
def test_messages_that_have_not_left_the_queue_are_named_and_nothing_is_erased(lake: Lake) -> None:
    before = fill(lake)
    waiting = factories.waiting(queue="q3", key=KEY)

    with pytest.raises(InvalidPipeline, match=rf"1 messages .* {waiting.pk}\. .*Nothing was erased"):
        lake.erase(KEY)
    assert everything(lake) == before
    with pytest.raises(InvalidPipeline, match="--key"):
        lake.erase()
    Message.objects.all().delete()


@pytest.mark.once
def test_a_copy_that_still_has_the_key_is_named(lake: Lake) -> None:
    fill(lake)
    copy = lake.a_file.parent.with_name("batch=99") / "copy.parquet"
    copy.parent.mkdir()
    copy.write_bytes(lake.a_file.read_bytes())

    with pytest.raises(LakeDamaged, match=r"still hold the keys.*copy\.parquet"):
        lake.erase(KEY)
    copy.unlink()
    lake.erase(KEY)
    assert KEY not in keys_on_disk(lake)


def _point(name: str) -> Any:
    return name if name in ALWAYS else pytest.param(name, marks=pytest.mark.nightly)


@pytest.mark.parametrize("point", [_point(name) for name in POINTS])
def test_killed_anywhere_the_next_run_finishes(
    spark: SparkSession, credentials_file: str, worker_env: dict[str, str], tmp_path: Path, point: str
) -> None:
    lake = Lake(spark, credentials_file, tmp_path / "history")
    before = fill(lake, delta=True)
    MessageEvent.objects.create(message_id=1, queue="Q1", kind="done")

    lake.die("erasing", point, worker_env)
    others = [row for row in before if row[PLACE] != KEY]
    assert [row for row in everything(lake) if row[PLACE] != KEY] == others

    lake.erase(KEY)

    lake.require_log_in_step()
    assert everything(lake) == others
    assert keys_on_disk(lake) == {"another", None, f"{KEY} "}
    assert not MessageEvent.objects.exists()
    assert not list(lake.root.glob("_writing/*"))
