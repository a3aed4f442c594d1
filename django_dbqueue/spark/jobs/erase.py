"""Erasure by key: what the history and a lake hold of messages with these keys is deleted, and shown to be gone.

Order decides what an interrupted run leaves: first what hangs on the messages, then their archived rows, then the rows
in the lake, by which the next run finds what hangs on them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django_dbqueue.exceptions import InvalidPipeline, LakeDamaged
from django_dbqueue.history import history_sql
from django_dbqueue.insight import listing_sql
from django_dbqueue.keys import key_hash
from django_dbqueue.lifecycle import results_sql
from django_dbqueue.spark.jobs.arguments import Progress, quiet
from django_dbqueue.spark.lake import frame_of
from django_dbqueue.spark.lake_keeping import Keeper, keeping
from django_dbqueue.spark.lake_rewriting import rewrite, vacuum
from django_dbqueue.statements import events_sql, steps_sql
from django_dbqueue.states.ranges_in_use import queue_names

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from django_dbqueue.spark.connection import Connection
    from django_dbqueue.spark.jobs.config import EraseConfig
    from django_dbqueue.spark.manifest import LakeFile
    from django_dbqueue.spark.manifests import Listed

IDS: Final = 20_000
"""Archive ids that one statement looks at: the history has no index on keys."""
AT_ONCE: Final = 500
"""Messages that one transaction erases."""
RECORDS: Final = "_erasures"

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class EraseResult:
    """How many rows of the archive and of the lake had the keys, and how many files of the lake had such rows."""

    lake: str
    archived: int = 0
    exported: int = 0
    files: int = 0
    deleted: int = 0
    dry_run: bool = False
    elsewhere: tuple[str, ...] = ()

    def __str__(self) -> str:
        others = "".join(
            f"\nThe lake {name!r} may hold them too: erase them there, by its own root." for name in self.elsewhere
        )
        if self.dry_run:
            return (
                f"{self.archived:,} rows of the archive and {self.exported:,} rows in {self.files:,} files of "
                f"{self.lake} have the keys. Nothing was erased.{others}"
            )
        return (
            f"{self.archived:,} rows of the archive and {self.exported:,} rows in {self.files:,} files of {self.lake} "
            f"erased, {self.deleted:,} old files deleted. No file of the lake has the keys any more.{others}"
        )


def run(spark: SparkSession, config: EraseConfig, progress: Progress = quiet) -> EraseResult:
    """Erase; InvalidPipeline names the messages with these keys that are still in the live table, if there are any."""
    with keeping(spark, config, make=False) as keeper:
        return Erasure(keeper, config, progress).run()


@dataclass(frozen=True, slots=True)
class Erasure:
    """One run, under the exporters' lock."""

    keeper: Keeper
    config: EraseConfig
    progress: Progress

    @property
    def connection(self) -> Connection:
        """The session that holds the lock."""
        return self.keeper.register.connection

    def run(self) -> EraseResult:
        """Erase, and look for what is left."""
        self.refuse_live()
        position, lake = self.keeper.recover(self.keeper.register.position())
        named = [each for manifest in self.keeper.read(lake) for each in manifest.files]
        self.progress("looking through the lake", 0, None)
        holding, exported = self.holding(named)
        archived = list(self.archived())
        result = EraseResult(
            self.keeper.files.root,
            archived=len(archived),
            exported=len(exported),
            files=len(holding),
            dry_run=self.config.dry_run,
            elsewhere=self.elsewhere(),
        )
        if self.config.dry_run:
            return result
        for some in _parts(sorted({*exported, *(message for _, message in archived)}), AT_ONCE):
            self.forget(some)
        for rows in _parts(archived, AT_ONCE):
            self.delete([row for row, _ in rows])
        if holding:
            lake, _ = rewrite(self.keeper, lake, holding, without=self.condition())
            self.keeper.clear(position, lake)
        result = replace(result, deleted=vacuum(self.keeper, lake, 0.0))
        self.require_gone(lake)
        self.record(result)
        return result

    def condition(self) -> Column:
        """Return what is true of rows of the lake that are to be erased."""
        from pyspark.sql import functions as sql

        has_key = sql.col("key").isin(*self.config.key)
        return has_key & sql.col("queue").isin(*self.config.queue) if self.config.queue else has_key

    def refuse_live(self) -> None:
        """Raise InvalidPipeline if messages with these keys have not yet left the live table."""
        fetch, server = self.connection.fetch, self.connection.server
        queues = self.config.queue or [str(name) for (name,) in fetch(queue_names(server))]
        hashes = [key_hash(queue, key) for queue in queues for key in self.config.key]
        live = sorted(
            {
                int(row[1])
                for some in _parts(hashes, 50)
                for row in fetch(listing_sql.latest_of_keys(server, some, AT_ONCE))
            }
        )
        if live:
            raise InvalidPipeline(
                f"{len(live):,} messages with these keys are still in the queue's table, waiting, running, done or "
                f"dead: {', '.join(map(str, live[:20]))}. Drop those that wait, let the others end, and archive them: "
                "manage.py queue_purge. Nothing was erased."
            )

    def archived(self) -> Iterator[tuple[int, int]]:
        """Yield id and message of each row of the history that has one of the keys."""
        fetch = self.connection.fetch
        here, end = (int(each or 0) for each in fetch(history_sql.bounds(self.connection.server))[0])
        here -= 1
        while here < end:
            for row, message, queue, key in fetch(
                history_sql.with_keys(self.connection.server, here, here + IDS, self.config.key)
            ):
                if key in self.config.key and (not self.config.queue or queue in self.config.queue):
                    yield int(row), int(message)
            here += IDS

    def forget(self, messages: Sequence[int]) -> None:
        """Delete what hangs on messages: their record of events, their steps, what they returned."""
        connection, server = self.connection, self.connection.server

        def work() -> None:
            with connection.transaction():
                events = [int(each) for (each,) in connection.fetch(history_sql.events_of(server, messages))]
                for some in _parts(events, AT_ONCE):
                    connection.run(events_sql.delete(server, some))
                for statement in steps_sql.forget(server, messages):
                    connection.run(statement)
                connection.run(results_sql.delete(server, messages))

        connection.outermost(work)

    def delete(self, rows: Sequence[int]) -> None:
        """Delete rows of the history."""
        connection = self.connection

        def work() -> None:
            with connection.transaction():
                for row in rows:
                    connection.run(history_sql.delete_history(self.connection.server, row - 1, row))

        connection.outermost(work)

    def holding(self, named: Sequence[LakeFile]) -> tuple[list[LakeFile], list[int]]:
        """Return the files that have such rows, and the messages of these rows."""
        rows = frame_of(self.keeper.spark, self.keeper.files, [each.path for each in named]).where(self.condition())
        found = rows.select("message_id", "queue", "day", "batch").collect()
        places = {(row.queue, row.day, row.batch) for row in found}
        files = [each for each in named if (each.queue, each.day, each.batch) in places]
        return files, [int(row.message_id) for row in found]

    def require_gone(self, lake: Listed) -> None:
        """Raise LakeDamaged if any Parquet file below the root still has the keys, or can't be read."""
        self.progress("looking through the lake again", 0, None)
        files = self.keeper.files
        named = {each.path for manifest in self.keeper.read(lake) for each in manifest.files}
        others = sorted(path for path in files.tree(suffix=".parquet") if path not in named)
        bad = self.holders(others)
        if bad or self._count(sorted(named)) != 0:
            raise LakeDamaged(
                f"Files below {files.root} still hold the keys, or can't be read: {', '.join(bad) or 'of the lake'}. "
                "Those that no manifest names are left over, or were copied there: delete them. Then run the job again."
            )

    def holders(self, paths: Sequence[str]) -> list[str]:
        """Return those of these files that have the keys, or can't be read: in halves, as they are few or none."""
        if not paths or self._count(paths) == 0:
            return []
        half = len(paths) // 2
        return self.holders(paths[:half]) + self.holders(paths[half:]) if half else list(paths)

    def _count(self, paths: Sequence[str]) -> int | None:
        try:
            return frame_of(self.keeper.spark, self.keeper.files, paths).where(self.condition()).count()
        except Exception:
            return None

    def elsewhere(self) -> tuple[str, ...]:
        """Return the names of other lakes that this history was exported to."""
        statement = history_sql.lakes(self.connection.server)
        own = self.keeper.register.lake
        return tuple(str(name) for (name,) in self.connection.fetch(statement) if name != own)

    def record(self, result: EraseResult) -> None:
        """Leave a record in the lake that says what was done, without the keys."""
        at = self.keeper.register.now()
        summary: dict[str, Any] = {"at": at, "keys": len(self.config.key), "queues": list(self.config.queue)}
        summary |= {"archived": result.archived, "exported": result.exported, "files": result.files}
        name = "".join(letter for letter in at if letter.isdigit())
        self.keeper.files.publish(f"{RECORDS}/{name}.json", json.dumps(summary, indent=1) + "\n")


def _parts(every: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    return (every[place : place + size] for place in range(0, len(every), size))
