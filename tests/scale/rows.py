"""A queue after years of use, built by SQL: every state of many queues, and what the console keeps beside them.

The same at each size. A state has a *hot* queue of its own that has most of its rows, so that a statement which reads a
whole queue reads more than any page may; the others share the rest evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models import AutoField, BooleanField

from django_dbqueue.databases import dialect_of
from django_dbqueue.envelope import key_hash
from django_dbqueue.lifecycle.bulk import Selection
from django_dbqueue.models import (
    ALL_QUEUES,
    ArchivedMessage,
    BulkOperation,
    ExportBatch,
    Failure,
    HistoryReader,
    Message,
    MessageEvent,
    Queue,
    QueueMinute,
    QueueStatistic,
    Schedule,
    StatisticProgress,
    Stream,
    StreamClaim,
    Worker,
)
from django_dbqueue.models.fields import clock, to_column
from django_dbqueue.statuses import DONE, NEW, RUNNING

if TYPE_CHECKING:
    from django_dbqueue.databases import Dialect

TABLES: Final = (
    Message,
    ArchivedMessage,
    MessageEvent,
    Failure,
    QueueMinute,
    QueueStatistic,
    BulkOperation,
    Queue,
    Schedule,
    Worker,
    StatisticProgress,
    Stream,
    StreamClaim,
    HistoryReader,
    ExportBatch,
    LogEntry,
)
AT_ONCE: Final = 500_000
"""Rows of one INSERT."""
DAY: Final = 86_400
KEY: Final = "same"
"""Of every done message of the queue that most of them are in."""
_ERROR: Final = 'Traceback (most recent call last):\n  File "app/mail.py", line 7, in send\nValueError: no such user'


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows there are of each kind; ``share`` is the hot queues' part of each state."""

    ready: int
    delayed: int
    running: int
    stuck: int
    dead: int
    done: int
    archived: int
    queues: int
    share: float
    hours: int
    minutes: int
    failures: int
    operations: int
    workers: int
    logged: int

    @property
    def messages(self) -> int:
        """Rows of the hot table."""
        return self.ready + self.delayed + self.running + self.stuck + self.dead + self.done


SMALL: Final = Size(
    ready=30_000,
    delayed=30_000,
    running=28_000,
    stuck=28_000,
    dead=28_000,
    done=30_000,
    archived=30_000,
    queues=200,
    share=0.75,
    hours=200,
    minutes=150,
    failures=1_000,
    operations=21_000,
    workers=40,
    logged=21_000,
)
"""Small enough for each run of the tests; each queue that is hot has more than 20,000 rows in one state."""
TEN_MILLION: Final = Size(
    ready=1_000_000,
    delayed=1_000_000,
    running=9_000,
    stuck=1_000,
    dead=100_000,
    done=7_890_000,
    archived=500_000,
    queues=200,
    share=0.25,
    hours=24 * 60,
    minutes=24 * 60,
    failures=2_000,
    operations=21_000,
    workers=200,
    logged=100_000,
)
HOT: Final = {"ready": 0, "delayed": 1, "running": 2, "stuck": 3, "dead": 4, "done": 5}
"""The number of the queue that most rows of a state are in."""


def name_of(number: int) -> str:
    return f"queue-{1000 + number}"


def hot(state: str) -> str:
    return name_of(HOT[state])


def fill(size: Size) -> None:
    """Fill tables that are empty."""
    Builder(dialect_of(connection), size).run()


def empty() -> None:
    verb = "DELETE FROM" if connection.vendor == "sqlite" else "TRUNCATE TABLE"
    with connection.cursor() as cursor:
        for model in TABLES:
            cursor.execute(f"{verb} {model._meta.db_table}")


def gather_statistics() -> None:
    """As the server's own housekeeping does after a while."""
    how = {"mysql": "ANALYZE TABLE {}", "postgresql": "VACUUM ANALYZE {}", "sqlite": "ANALYZE {}"}[connection.vendor]
    with connection.cursor() as cursor:
        for model in TABLES:
            cursor.execute(how.format(model._meta.db_table))
            if cursor.description:
                cursor.fetchall()


def forget_statistics() -> None:
    """SQLite keeps what ANALYZE found for ever, and others are to plan without it."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS sqlite_stat1")
        connection.close()


class Builder:
    """Each method fills one table. ``n`` is the number of a row, from 0; a per cent sign is written twice."""

    def __init__(self, dialect: Dialect, size: Size) -> None:
        self.dialect, self.size = dialect, size

    def run(self) -> None:
        for state in HOT:
            self._messages(state)
        self._archive()
        self._failures()
        self._events()
        self._statistics()
        self._workers_queues_and_schedules()
        self._operations_and_logs()
        self._pipeline()

    # -- messages -----------------------------------------------------------------------------------------

    def _messages(self, state: str) -> None:
        count = getattr(self.size, state)
        moment = self._due(state, count)
        done, held = state == "done", state in {"running", "stuck"}
        in_hot = f"n < {self._in_hot(count)}"
        self._insert(
            Message,
            count,
            queue=self._queue(state, count),
            key=f"CASE WHEN {in_hot} THEN '{KEY}' END" if done else "NULL",
            key_hash=f"CASE WHEN {in_hot} THEN '{key_hash(hot(state), KEY)}' END" if done else "NULL",
            status=f"'{RUNNING if held else DONE if done else NEW}'",
            priority="CASE WHEN n %% 10 = 9 THEN 5 ELSE 0 END",
            available_at=moment,
            due_at=moment if state in {"ready", "delayed"} else self._at(f"-{8 * DAY}"),
            created_at=self._at(f"-{8 * DAY}"),
            claimed_at=moment if done else self._at("-120") if held else "NULL",
            finished_at=moment if done else self._at(f"-{DAY} - n * 0.5") if state == "dead" else "NULL",
            claim_token="n + 1" if held or done else "NULL",
            worker_id=f"1 + n %% {self.size.workers}" if held else "NULL",
            conn_id="n + 1" if held else "NULL",
            read_count={"dead": "3", "ready": "n %% 3", "delayed": "0"}.get(state, "1"),
            max_reads="3",
            lease_seconds="60",
            body=self._joined("'{\"n\": '", "n", '\', "to": "someone@example.com"}\''),
            error=f"'{_ERROR}'" if state in {"dead", "stuck"} else "NULL",
        )

    def _due(self, state: str, count: int) -> str:
        """``available_at``: what is due stays so, and what isn't, however long the tests take."""
        spread = f"{6 * DAY / count:.9f}"
        seconds = {
            "ready": f"-60 - n * {spread}",
            "delayed": f"{DAY} + n * {spread}",
            "running": f"{DAY} + n * 0.001",
            "stuck": "-60 - n * 0.001",
            "done": f"-60 - n * {spread}",
        }
        return self._at(seconds[state]) if state in seconds else "NULL"

    def _archive(self) -> None:
        self._insert(
            ArchivedMessage,
            self.size.archived,
            message_id="-n - 1",
            outcome="CASE WHEN n %% 50 = 0 THEN 'dead' ELSE 'done' END",
            queue=self._queue("done", self.size.archived),
            priority="0",
            read_count="1",
            crashes="0",
            body="'1'",
            content_type="'json'",
            due_at=self._at(f"-{9 * DAY}"),
            created_at=self._at(f"-{9 * DAY}"),
            claimed_at=self._at(f"-{8 * DAY} - 2"),
            finished_at=self._at(f"-{8 * DAY}"),
        )

    # -- what the console keeps ---------------------------------------------------------------------------

    def _failures(self) -> None:
        self._insert(
            Failure,
            self.size.failures,
            id="n + 1",
            queue=f"CASE WHEN n = 0 THEN '{hot('dead')}' ELSE {self._spread()} END",
            fingerprint=self._joined("'print-'", "n"),
            exception="'ValueError'",
            place=self._joined("'app/mail.py in send_'", "n"),
            first_at=self._at(f"-{7 * DAY}"),
        )

    def _events(self) -> None:
        """Each dead message failed three times; in the queue that has most of the dead all in one place."""
        table = connection.ops.quote_name(MessageEvent._meta.db_table)
        group = f"CASE WHEN queue = '{hot('dead')}' THEN 1 ELSE 2 + id %% {self.size.failures - 1} END"
        for read, kind in ((1, "failed"), (2, "failed"), (3, "died")):
            self._run(
                f"INSERT INTO {table} "
                "(message_id, queue, kind, at, read_count, claimed_at, worker, detail, failure_id) "
                f"SELECT id, queue, '{kind}', finished_at, {read}, finished_at, 'host:1', error, {group} "
                f"FROM {Message._meta.db_table} WHERE status = '{NEW}' AND available_at IS NULL"
            )

    def _statistics(self) -> None:
        queues = self.size.queues
        counts = {"messages": "60", "failures": "3", "retries": "2", "dead": "1"}
        times = {f"{what}_{part}": "0.5" for what in ("wait", "run") for part in ("p50", "p95", "p99")}
        step = f"(n - n %% {queues}) / {queues}"
        hour = self._back_from({"minute": 0}, f"-3600 * {step}")
        minute = self._back_from({}, f"-60 * {step}")
        histogram = "'[480,60]'"
        # the first of each hour and minute is of all queues together
        name = f"CASE WHEN n %% {queues} = 0 THEN '{ALL_QUEUES}' ELSE {self._spread()} END"
        self._insert(QueueStatistic, queues * self.size.hours, queue=name, hour=hour, **counts, **times)
        self._insert(
            QueueMinute,
            queues * self.size.minutes,
            queue=name,
            minute=minute,
            shown="TRUE",
            **counts,
            wait=histogram,
            run=histogram,
        )

        self._insert(StatisticProgress, 1, id="1", fresh_to=self.dialect.now, settled_to=self._at("-60"))

    def _workers_queues_and_schedules(self) -> None:
        queues = ",".join(name_of(number) for number in range(self.size.queues))
        self._insert(
            Worker,
            self.size.workers,
            id="n + 1",
            host=self._joined("'host-'", "n"),
            pid="n + 1",
            queues=f"'{queues}'",
            threads="4",
        )
        self._insert(Queue, self.size.queues // 2, name=self._spread())
        self._insert(
            Schedule,
            self.size.queues,
            name=self._joined("'every-'", "n"),
            queue=self._spread(),
            cron="'*/5 * * * *'",
            timezone="'UTC'",
            declared_at=self._at("-60"),
        )

    def _operations_and_logs(self) -> None:
        user, _ = User.objects.get_or_create(username="somebody")
        message = ContentType.objects.get_for_model(Message)
        self._insert(
            BulkOperation,
            self.size.operations,
            verb="'requeue'",
            selection=f"'{Selection('dead', queue=hot('dead'))}'",
            last_id="1",
            expected="1",
            state="'done'",
            reason="''",
            user_id=f"'{user.pk}'",
            ordered_by="'somebody'",
            ended_at=self._at("-60"),
        )
        self._insert(
            LogEntry,
            self.size.logged,
            action_time=self._at("-n"),
            user_id=f"{user.pk}",
            content_type_id=f"{message.pk}",
            object_id="'1'",
            object_repr="'a message'",
            action_flag=f"{CHANGE}",
            change_message="'Requeued.'",
        )

    def _pipeline(self) -> None:
        """Streams and readers, a few; claims that have ended, and exports, many."""
        self._insert(Stream, 5, name=self._joined("'stream-'", "n"))
        self._insert(HistoryReader, 5, name=self._joined("'reader-'", "n"))
        self._insert(
            StreamClaim,
            self.size.operations,
            stream="'stream-0'",
            number="n",
            queue=f"'{hot('done')}'",
            claim_token="n",
            state="'acked'",
            ids="'[[1,2]]'",
        )
        self._insert(ExportBatch, self.size.operations, lake="'lake'", number="n", state="'purged'", purged_to="n")

    # -- SQL ----------------------------------------------------------------------------------------------

    def _in_hot(self, count: int) -> int:
        return int(count * self.size.share)

    def _queue(self, state: str, count: int) -> str:
        return f"CASE WHEN n < {self._in_hot(count)} THEN '{hot(state)}' ELSE {self._spread()} END"

    def _spread(self) -> str:
        return self._joined("'queue-'", f"(1000 + n %% {self.size.queues})")

    def _joined(self, *parts: str) -> str:
        return f"CONCAT({', '.join(parts)})" if connection.vendor == "mysql" else f"({' || '.join(parts)})"

    def _at(self, seconds: str) -> str:
        return self.dialect.plus(self.dialect.now, seconds)

    def _back_from(self, beginning: dict[str, int], seconds: str) -> str:
        moment = clock("default").replace(second=0, microsecond=0, **beginning)
        return self.dialect.plus(f"'{to_column(moment, connection)}'", seconds)

    def _insert(self, model: type[Any], count: int, **columns: str) -> None:
        """Insert rows 0 to count - 1 of these columns, each SQL of n."""
        quote = connection.ops.quote_name
        columns = self._unsaid(model, columns) | columns
        names = ", ".join(quote(name) for name in columns)
        for first in range(0, count, AT_ONCE):
            last = min(first + AT_ONCE, count) - 1
            self._run(
                f"INSERT INTO {quote(model._meta.db_table)} ({names}) "
                "WITH RECURSIVE k (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM k WHERE i < 999), "
                f"numbers (n) AS (SELECT {first} + a.i * 1000 + b.i FROM k AS a CROSS JOIN k AS b "
                f"WHERE a.i <= {(last - first) // 1000}) "
                f"SELECT {', '.join(columns.values())} FROM numbers WHERE n <= {last}"
            )

    def _unsaid(self, model: type[Any], said: dict[str, str]) -> dict[str, str]:
        """What must stand in columns that nobody has said, and that have no default."""
        found = {}
        for field in model._meta.concrete_fields:
            if field.column in said or field.null or field.has_db_default() or isinstance(field, AutoField):
                continue
            if field.unique:
                found[field.column] = self._joined("'number-'", "n")
                continue
            found[field.column] = {"CharField": "''", "TextField": "''", "DateTimeField": self.dialect.now}.get(
                field.get_internal_type(), "FALSE" if isinstance(field, BooleanField) else "0"
            )
        return found

    @staticmethod
    def _run(sql: str) -> None:
        with connection.cursor() as cursor:
            if connection.vendor == "mysql":
                cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute(sql, ())
            if connection.vendor == "mysql":
                cursor.execute("SET SESSION sql_log_bin = 1")
