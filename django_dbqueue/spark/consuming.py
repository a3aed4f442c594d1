"""The consuming stream: each message of a queue goes to one stream, whose claims are the offsets of its query.

Spark asks for an offset, and a claim is made. It writes the offset down, and later asks for the next one: only then is
the claim's batch known to be committed, and its messages are acked. A query killed anywhere in between gets the same
claim with the same messages from its checkpoint again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from django_dbqueue.envelope import QUEUE_NAME, check_queue
from django_dbqueue.exceptions import DBQueueError, InvalidPipeline
from django_dbqueue.settable.option_table import WIDEST
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.lasting import Lasting
from django_dbqueue.spark.outage import OPTION as OUTAGE
from django_dbqueue.spark.outage import outage_of
from django_dbqueue.spark.schemas import MESSAGES, arrow_schema, with_id
from django_dbqueue.spark.source_options import Options
from django_dbqueue.spark.trigger_limits import OPTIONS as TRIGGER_OPTIONS
from django_dbqueue.spark.trigger_limits import TriggerLimits
from django_dbqueue.streams import stream_claims_sql, stream_messages_sql, streams_sql
from django_dbqueue.streams.id_ranges import Ranges, common, cut, size_of, steps
from django_dbqueue.streams.ownership import HOLD, ON_EXPIRED, StreamSpec
from django_dbqueue.streams.stream_delivery import deliver
from django_dbqueue.streams.stream_lanes import LaneRules
from django_dbqueue.streams.stream_progress_sql import NAME, STREAM

if TYPE_CHECKING:
    import pyarrow as pa

    from django_dbqueue.databases import Statement
    from django_dbqueue.spark.arrow import Pages
    from django_dbqueue.spark.stream_run import StreamRun

OPTIONS: Final = (
    "queue",
    "stream",
    *TRIGGER_OPTIONS,
    "lease",
    "on_expired",
    "max_reads",
    "group_limit",
    "on_dead",
    "numPartitions",
    OUTAGE,
)
MAX_MESSAGES: Final = 20_000
MOST_MESSAGES: Final = 1_000_000
LEASE: Final = 60
SHORTEST_LEASE: Final = 3
MAX_READS: Final = 5
PARTITIONS: Final = 4
WORTH_A_TASK: Final = 10_000
"""Messages that justify one more task, if ``numPartitions`` is not set."""
FETCH_ROWS: Final = 10_000


@dataclass(frozen=True)
class Slice(InputPartition):
    """What one task reads: ids of a claim, and the run that planned it."""

    run: int
    number: int
    ranges: Ranges


def reader_of(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Return a reader of a queue as a stream; InvalidPipeline for invalid options."""
    return ClaimStreamReader(options, schema)


class ClaimStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader in the runner, with copies in the planner and in tasks; only the first ever has a ``StreamRun``."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = dict(options)
        chosen = Options.of(options, OPTIONS)
        self.schema = MESSAGES.checked(schema)
        self.spec = _spec_of(chosen)
        self.limits = TriggerLimits.of(chosen, MAX_MESSAGES, most=MOST_MESSAGES)
        self.parts = chosen.whole("numPartitions", most=10_000)
        self.outage = outage_of(chosen)
        self.sessions = Credentials.load(options).max_connections
        self._run: StreamRun | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_run": None}

    @property
    def run(self) -> StreamRun:
        """Return this process's run, which begins with the first question."""
        if self._run is None:
            from django_dbqueue.spark.stream_run import StreamRun

            credentials = Credentials.load(self.options)
            self._run = StreamRun(credentials, self.spec, outage=self.outage, limits=self.limits)
        return self._run

    # -- what Spark asks the runner -----------------------------------------------------------------------

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Begin a new checkpoint before the first claim that is not acked."""

        def begin(connection: Connection) -> int:
            unfinished = connection.fetch(stream_claims_sql.unfinished(connection.server, self.spec.name, limit=1))
            if unfinished:
                return int(unfinished[0][0]) - 1
            rows = connection.fetch(streams_sql.read(connection.server, self.spec.name, 0, lock=False))
            return int(rows[0][4]) if rows else 0

        with Lasting(Credentials.load(self.options), outage=self.outage) as session:
            return {"claim": session.ask(begin)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxRows(self.limits.most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self.run.stop_at_now()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Ack up to ``start``, and claim; asked again, the same claim."""
        if not isinstance(limit, ReadMaxRows):
            raise InvalidPipeline(
                "A consuming stream claims a bounded number of messages at a time, but trigger(once=True) asks for "
                "all at once and would leave them unacknowledged: use trigger(availableNow=True)."
            )
        return {"claim": self.run.advance(int(start["claim"]), limit.max_rows)}

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Return how many messages are not claimed, of those that are due and those that wait, for Spark's events."""
        left = self.run.backlog()
        return {
            NAME: STREAM + self.spec.name,
            "ready": left.ready,
            "waiting": left.waiting,
            "capped": left.is_capped,
        }

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Distribute the messages of the claims after ``start`` over tasks."""
        run = self.run
        slices = [
            Slice(run.id, number, piece)
            for number, ranges in run.planned(int(start["claim"]), int(end["claim"]))
            for piece in cut(ranges, self._parts_for(size_of(ranges)))
        ]
        return slices or [Slice(run.id, 0, ())]

    def _parts_for(self, messages: int) -> int:
        return self.parts or min(PARTITIONS, self.sessions or PARTITIONS, -(-messages // WORTH_A_TASK))

    def commit(self, end: dict[str, int]) -> None:
        self.run.ack(int(end["claim"]))

    def stop(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()

    # -- what a task does ---------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the slice's messages in id order, as far as its claim still holds them."""
        from django_dbqueue.spark.arrow import Pages

        assert isinstance(partition, Slice)
        if not partition.ranges:
            return
        credentials = Credentials.load(self.options)
        run, number = partition.run, partition.number
        with Lasting(credentials, outage=self.outage) as session:
            delivery = session.ask(lambda each: deliver(each, self.spec, run, number))
        mine = common(partition.ranges, delivery.ranges)
        if not mine:
            return
        names, schema = [field.name for field in self.schema], arrow_schema(with_id(self.schema))
        with Pages(credentials, schema, fetch_rows=FETCH_ROWS, outage=self.outage) as pages:
            for among, size in steps(mine):
                rows = 0
                for batch in self._read(pages, among, delivery.token):
                    rows += batch.num_rows
                    yield batch if len(names) == len(schema) else batch.select(names)
                if rows != size:
                    self._refuse_gap(pages, number, among, delivery.token, rows)

    def _read(self, pages: Pages, among: Statement, token: int) -> Iterator[pa.RecordBatch]:
        """Read some messages of a claim, continuing after the last one if the session ends meanwhile."""
        names = [name.lower() for name in pages.schema.names]
        columns, place, rest = pages.server.columns(names), names.index("id"), among
        while True:
            try:
                for batch in pages.read(stream_messages_sql.delivered(pages.server, columns, rest, token)):
                    rest = stream_messages_sql.behind(among, batch.column(place)[-1].as_py())
                    yield batch
            except Exception as error:
                pages.recover(error)
            else:
                if not pages.is_cut:
                    return

    def _refuse_gap(self, pages: Pages, number: int, among: Statement, token: int, rows: int) -> None:
        """Fail the batch, which acks nothing, if the claim holds more than was read: no operator moved it."""
        held = int(pages.connection.fetch(stream_messages_sql.count_delivered(pages.server, among, token))[0][0])
        if held > rows:
            raise DBQueueError(
                f"Claim {number} of the stream {self.spec.name!r} was not read in full: of {held:,} messages "
                f"{rows:,} arrived. The batch fails, none of it is acknowledged, and it is delivered again when the "
                "query is restarted. This is a bug: please report it with the schema that you read."
            )


def _spec_of(options: Options) -> StreamSpec:
    queue = options.required("queue", "it names the queue that the stream consumes.")
    name = options.required(
        "stream",
        "it names the stream. The database records the stream's claims under this name, beside the checkpoint.",
    )
    check_queue(queue)
    if QUEUE_NAME.match(name) is None:
        raise InvalidPipeline(
            f"{name!r} is not a valid stream name: use 1 to 64 of A-Z a-z 0-9 _ . : -, beginning with a letter "
            "or a digit."
        )
    return StreamSpec(
        name=name,
        queue=queue,
        lease=float(options.whole("lease", LEASE, least=SHORTEST_LEASE, most=7 * 86_400)),
        on_expired=options.choice("on_expired", ON_EXPIRED, HOLD),
        max_reads=options.whole("max_reads", MAX_READS, least=0, most=2_000_000_000),
        rules=LaneRules(
            group_limit=options.whole("group_limit", 1, most=WIDEST),
            holds_dead=options.choice("on_dead", ("next", "hold"), "next") == "hold",
        ),
    )
