"""An export stops rather than lose anything: at another one's lake, at a second exporter, at damage, at a full disk."""

from __future__ import annotations

import os
import random
import resource
import string
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.databases import Statement
from django_dbqueue.exceptions import ExportBusy, ExportStopped, LakeDamaged
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import ArchivedMessage, ExportBatch, HistoryReader
from django_dbqueue.spark import lake_keeping
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.exclusive import only_exporter
from django_dbqueue.spark.export_batches import Batch
from django_dbqueue.spark.jobs import export
from django_dbqueue.spark.jobs.export import Export
from django_dbqueue.spark.manifest import Manifest
from tests.spark.archives import archive, ids
from tests.spark.lakes import Lake

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]


@pytest.mark.once
def test_a_lake_of_another_database_is_refused(lake: Lake) -> None:
    archive(2)
    lake.export(keep=True)
    ExportBatch.objects.all().delete()
    HistoryReader.objects.all().delete()

    with pytest.raises(LakeDamaged, match=r"never planned.*Export to another root"):
        lake.export()
    assert len(ids()) == 2


@pytest.mark.once
def test_a_second_exporter_learns_who_is_at_it(lake: Lake) -> None:
    there = archive(2)
    credentials = credentials_of("default")

    with Connection(credentials) as other, only_exporter(other, credentials):
        with pytest.raises(ExportBusy) as refused:
            lake.export()
        assert _name_of_session(other) in str(refused.value)
        assert (ids(), lake.root.exists()) == (there, False)
    assert lake.export().purged == 2


def _name_of_session(other: Connection) -> str:
    if other.vendor == "sqlite":
        return f"process {os.getpid()} on "
    return f"database session {other.fetch(Statement(f'SELECT {other.server.session_id}', ()))[0][0]} ("


@pytest.mark.once
def test_rows_deleted_between_plan_and_write_stop_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    there = archive(5)
    write = Export.write

    def deleted_before(self: Export, batch: Batch) -> Manifest:
        ArchivedMessage.objects.filter(pk=there[2]).delete()
        return write(self, batch)

    monkeypatch.setattr(Export, "write", deleted_before)
    with pytest.raises(ExportStopped, match="had 5 rows when it was planned, and 4 when it was read"):
        lake.export()
    assert (len(ids()), lake.manifests) == (4, [])

    monkeypatch.undo()
    assert lake.export().purged == 4
    assert lake.ids == there[:2] + there[3:]
    assert {each.state for each in ExportBatch.objects.all()} == {"dropped", "purged"}
    assert not list(lake.root.glob("queue=*/day=*/batch=1")), "what the first try had written is cleared away"


@pytest.mark.once
def test_a_root_that_can_not_be_written_to_is_named(lake: Lake) -> None:
    there = archive(2)
    lake.root.write_text("a file")

    with pytest.raises(ExportStopped, match=r"history can't be written to: .+ Nothing was exported"):
        lake.export()
    assert ids() == there


@pytest.mark.once
def test_a_folder_that_can_not_be_made_stops_it_and_the_next_run_goes_on(lake: Lake) -> None:
    there = archive(2)
    lake.export(max_batches=0)
    (lake.root / "queue=tests").write_text("a file")

    with pytest.raises(ExportStopped, match=r"batch 1 \(archive ids 1 to .*could not be written to"):
        lake.export()
    assert ids() == there

    (lake.root / "queue=tests").unlink()
    assert lake.export().purged == 2
    assert lake.ids == there


def _truncate(lake: Lake) -> None:
    with lake.a_file.open("r+b") as file:
        file.truncate(100)


def _flip_a_bit(lake: Lake) -> None:
    """In the first page of data, where neither the length nor the footer tells."""
    content = bytearray(lake.a_file.read_bytes())
    content[60] ^= 1
    lake.a_file.write_bytes(content)
    lake.a_file.with_name(f".{lake.a_file.name}.crc").unlink()


def _delete(lake: Lake) -> None:
    lake.a_file.unlink()


def _cut_the_manifest(lake: Lake) -> None:
    file = lake.root / "_manifests" / lake.manifests[0].name
    file.write_text(file.read_text()[:-40])


def _edit_the_manifest(lake: Lake) -> None:
    file = lake.root / "_manifests" / lake.manifests[0].name
    file.write_text(file.read_text().replace('"rows": 5', '"rows": 4'))


def _delete_the_manifest(lake: Lake) -> None:
    (lake.root / "_manifests" / lake.manifests[0].name).unlink()


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (_truncate, "has 100 bytes instead of"),
        (_flip_a_bit, r"can't be read|holds 5 rows with the checksum"),
        (_delete, "is missing"),
        (_cut_the_manifest, "is not a manifest, or only part of one"),
        (_edit_the_manifest, "was changed after"),
        (_delete_the_manifest, r"is missing\. Restore"),
    ],
)
@pytest.mark.once
def test_nothing_is_purged_whose_lake_is_damaged(lake: Lake, damage: Any, error: str) -> None:
    there = archive(5)
    lake.export(keep=True)
    damage(lake)

    with pytest.raises(LakeDamaged, match=error):
        lake.export()
    assert ids() == there


@pytest.mark.once
def test_rows_that_somebody_put_among_exported_ones_are_not_purged(lake: Lake) -> None:
    there = archive(3)
    row = ArchivedMessage.objects.get(pk=there[1])
    ArchivedMessage.objects.filter(pk=row.pk).delete()
    lake.export(keep=True)
    row.save(force_insert=True)

    with pytest.raises(ExportStopped, match="The archive has 3 rows of the batch 1"):
        lake.export()
    assert ids() == there


@pytest.mark.once
def test_a_full_disk_stops_it_and_the_next_run_goes_on(lake: Lake) -> None:
    there = archive(40, error="".join(random.choices(string.printable, k=20_000)))
    jvm = lake.spark._jvm.java.lang.ProcessHandle.current().pid()
    soft, hard = resource.prlimit(jvm, resource.RLIMIT_FSIZE)

    lake.export(max_batches=0)
    resource.prlimit(jvm, resource.RLIMIT_FSIZE, (8_192, hard))  # the system refuses what is written behind that
    try:
        with pytest.raises(ExportStopped, match=r"batch 1 .* could not be written to .*: .*File too large"):
            lake.export()
    finally:
        resource.prlimit(jvm, resource.RLIMIT_FSIZE, (soft, hard))
    assert (ids(), lake.ids) == (there, [])

    assert lake.export().purged == 40
    assert lake.ids == there


@pytest.mark.once
def test_of_two_that_export_the_same_ids_one_publishes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was frozen before it published, and lost its lock, finds that another was there."""
    there = archive(4)
    publish = Export.publish

    def overtaken(self: Export, batch: Batch, manifest: Manifest) -> None:
        monkeypatch.setattr(Export, "publish", publish)
        end_session(self.register.connection)
        assert lake.export(batch_rows=3, max_batches=1, keep=True).rows == 3
        monkeypatch.setattr(export, "require_lock", lambda _: None)  # as if it had looked just before
        publish(self, batch, manifest)

    monkeypatch.setattr(Export, "publish", overtaken)
    # On SQLite the lock is the process's, which would have to have ended
    monkeypatch.setattr(lake_keeping, "only_exporter", _no_lock if connection.vendor == "sqlite" else only_exporter)
    with pytest.raises(ExportStopped, match=r"batch 1 .* was published in the meantime by another export"):
        lake.export()
    assert lake.ids == there[:3]

    monkeypatch.undo()
    assert lake.export().purged == 4
    assert lake.ids == there
    assert not list(lake.root.glob("queue=*/day=*/batch=1"))


def end_session(own: Connection) -> None:
    """As a server does that loses its client."""
    if own.vendor == "sqlite":
        return
    [(session,)] = own.fetch(Statement(f"SELECT {own.server.session_id}", ()))
    with connection.cursor() as cursor:
        cursor.execute("KILL %s" if own.vendor == "mysql" else "SELECT pg_terminate_backend(%s)", [session])


@contextmanager
def _no_lock(*_: Any) -> Iterator[None]:
    yield


if settings.TEST_DATABASE != "sqlite":  # whose lock is the process's

    def test_one_that_has_lost_its_session_publishes_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        there = archive(3)
        write = Export.write

        def lost(self: Export, batch: Batch) -> Manifest:
            manifest = write(self, batch)
            end_session(self.register.connection)
            return manifest

        monkeypatch.setattr(Export, "write", lost)
        with pytest.raises(ExportStopped, match="has lost its lock"):
            lake.export()
        assert (ids(), lake.ids) == (there, [])

        monkeypatch.undo()
        assert lake.export().purged == 3
        assert lake.ids == there
