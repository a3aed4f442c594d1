"""The Delta log of a lake is what its manifests say, whoever was killed or wrote to it; else an error names it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType
from deltalake.transaction import RemoveAction

from django_dbqueue.exceptions import ExportStopped, InvalidPipeline, LakeDamaged
from django_dbqueue.spark import delta_log
from django_dbqueue.spark.delta_log import DeltaLog
from django_dbqueue.spark.manifest import LakeFile
from tests.spark.archives import archive, ids
from tests.spark.lakes import Lake

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.django_db(transaction=True)]


def test_one_that_was_overtaken_commits_nothing_and_the_next_run_repairs_the_log(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was frozen after its manifest was published; meanwhile another run took its files out of the log again."""
    archive(2)
    lake.export(delta=True)
    there = archive(2)
    commit = DeltaLog.commit

    def overtaken(self: DeltaLog, added: Sequence[LakeFile], gone: Sequence[Any] = ()) -> None:
        monkeypatch.setattr(DeltaLog, "commit", commit)
        table = lake.delta
        paths = table.get_add_actions().column("path").to_pylist()
        removed = [RemoveAction(path, True, 0) for path in paths]
        table.create_write_transaction(removed, "append", table.schema(), ["queue", "day", "batch"])
        commit(self, added, gone)

    monkeypatch.setattr(DeltaLog, "commit", overtaken)
    with pytest.raises(ExportStopped, match="somebody else wrote to it in the meantime"):
        lake.export()
    assert lake.delta.get_add_actions().num_rows == 0
    assert ids() == there

    assert lake.export().purged == 2
    lake.require_log_in_step()


def test_a_log_of_an_older_version_gets_the_columns_it_lacks(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(2)
    schema = delta_log._schema
    monkeypatch.setattr(
        delta_log, "_schema", lambda columns: schema(each for each in columns if each[0] != "group_name")
    )
    lake.export(delta=True)
    assert "group_name" not in lake.delta.to_pyarrow_table().column_names

    monkeypatch.undo()
    archive(2, group_name="g")
    lake.export()
    assert lake.delta.to_pyarrow_table()["group_name"].to_pylist().count("g") == 2
    lake.require_log_in_step()


def test_what_is_not_the_log_of_this_lake_is_refused_and_nothing_is_done(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = archive(2)
    log = lake.root / "_delta_log"
    _make_table(lake)
    with pytest.raises(InvalidPipeline, match="is a Delta table, and no lake"):
        lake.export(delta=True)
    assert not (lake.root / "_lake.json").exists()

    log.rename(lake.root / "elsewhere")
    lake.export(keep=True)
    (lake.root / "elsewhere").rename(log)
    for job in (lake.export, lake.compact, lambda: lake.erase("k")):
        with pytest.raises(InvalidPipeline, match=r"_delta_log is the log of another Delta table.*Nothing was done"):
            job()
    assert ids() == there

    name = lake.manifests[0].lake
    (log / f"{0:020d}.json").unlink()
    _make_table(lake, name)
    with pytest.raises(LakeDamaged, match=r"changed the columns or the protocol of .*_delta_log.*delete _delta_log"):
        lake.export()
    (log / f"{0:020d}.json").write_text("{")
    with pytest.raises(ExportStopped, match=r"can't be opened by the package deltalake.*delete _delta_log"):
        lake.export()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "deltalake", None)
        with pytest.raises(InvalidPipeline, match=r"pip install 'django-dbqueue\[delta\]'"):
            lake.export()
    assert ids() == there

    (log / f"{0:020d}.json").unlink()
    assert lake.export(delta=True).purged == 2
    lake.require_log_in_step()


def _make_table(lake: Lake, name: str | None = None) -> None:
    DeltaTable.create(str(lake.root), Schema([Field("a", PrimitiveType("long"))]), name=name)
