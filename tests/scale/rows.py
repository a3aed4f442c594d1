"""A queue after years of use, built by SQL: every state of many queues, and what the console keeps beside them.

The same at each size. A state has a *hot* queue of its own that has most of its rows, so that a statement which reads a
whole queue reads more than any page may; the others share the rest evenly.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import connection

from django_dbqueue.databases import dialect_of
from django_dbqueue.envelope import lane_of
from django_dbqueue.flows.flow_progress import SHOWN
from django_dbqueue.keys import key_hash
from django_dbqueue.models import (
    ALL_QUEUES,
    ArchivedMessage,
    BulkOperation,
    ExportBatch,
    Failure,
    Flow,
    FlowPart,
    Group,
    HistoryReader,
    Line,
    Message,
    MessageEvent,
    Queue,
    QueueMinute,
    QueueStatistic,
    QueueTotal,
    Schedule,
    StatisticProgress,
    Stream,
    StreamClaim,
    StreamProgress,
    Ticket,
    Worker,
)
from django_dbqueue.operations.bulk import Selection
from django_dbqueue.statuses import DONE, NEW, RUNNING
from django_dbqueue.tasks.task_headers import TASK as TASK_HEADER
from tests.scale.inserting import Inserting
from tests.scale.size import GROUP, HOT, KEY, TASK, WIDE, Size, hot, name_of

if TYPE_CHECKING:
    from django_dbqueue.databases import Dialect

TABLES: Final = (
    Message,
    Line,
    Ticket,
    Group,
    Flow,
    FlowPart,
    ArchivedMessage,
    MessageEvent,
    Failure,
    QueueMinute,
    QueueStatistic,
    QueueTotal,
    BulkOperation,
    Queue,
    Schedule,
    Worker,
    StatisticProgress,
    Stream,
    StreamClaim,
    StreamProgress,
    HistoryReader,
    ExportBatch,
    LogEntry,
)
DAY: Final = 86_400
_HISTOGRAM: Final = json.dumps([number for bucket in range(320, 560) for number in (bucket, 250_000)])
"""Of sixty million times, from a millisecond to a fifth of a second, in every bucket between."""
_HEADERS: Final = f'{{"{TASK_HEADER}":"{TASK}"}}'
_ERROR: Final = 'Traceback (most recent call last):\n  File "app/mail.py", line 7, in send\nValueError: no such user'


def fill(size: Size) -> None:
    """Fill tables that are empty."""
    Builder(dialect_of(connection), size).run()
    _flows()


def _flows() -> None:
    """Many flows that are over and archived, and one of more messages than are counted, in parts as they are sent."""
    Flow.objects.bulk_create(Flow(name=f"gone {number}") for number in range(2_000))
    flow, first = Flow.objects.create(name="many").pk, Message.objects.done(hot("done")).earliest("pk").pk
    parts = [(first + 1_000 * number, first + 1_000 * number + 999) for number in range(2 * SHOWN // 1_000)]
    Message.objects.filter(pk__range=(parts[0][0], parts[-1][1])).update(flow=flow)
    rows = [FlowPart(flow=flow, first_id=low, last_id=high, messages=1_000) for low, high in parts]
    FlowPart.objects.bulk_create(rows)


def empty() -> None:
    verb = "DELETE FROM" if connection.vendor == "sqlite" else "TRUNCATE TABLE"
    with connection.cursor() as cursor:
        for model in TABLES:
            cursor.execute(f"{verb} {model._meta.db_table}")


class Builder(Inserting):
    """Each method fills one table."""

    def __init__(self, dialect: Dialect, size: Size) -> None:
        super().__init__(dialect)
        self.size = size

    def run(self) -> None:
        for state in HOT:
            self._messages(state)
        self._groups()
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
        in_hot, other_group = f"n < {self._in_hot(count)}", self._joined("'group-'", "n")
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
            headers=f"CASE WHEN n %% 100 = 7 THEN '{_HEADERS}' END",
            lane=self._lane(count) if state == "waiting" else "NULL",
            group_name=f"CASE WHEN {in_hot} THEN '{GROUP}' ELSE {other_group} END" if state == "waiting" else "NULL",
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
        if state == "waiting":
            return self.dialect.sql.parked
        return self._at(seconds[state]) if state in seconds else "NULL"

    def _lane(self, count: int) -> str:
        """The hot queue's are in one lane, the others in many."""
        return f"CASE WHEN n < {self._in_hot(count)} THEN {lane_of(hot('waiting'), GROUP)} ELSE n END"

    def _groups(self) -> None:
        """Lines of those that wait, places for nobody in particular, and groups with something of their own."""
        line = connection.ops.quote_name(Line._meta.db_table)
        self._run(
            f"INSERT INTO {line} (lane, message_id) "
            f"SELECT lane, id FROM {Message._meta.db_table} WHERE lane IS NOT NULL"
        )
        many, few = 9_000, 30  # few in the lane where most wait: a drop looks each of its rows up among the tickets
        wide = f"CASE WHEN n < {many} THEN {lane_of(hot('waiting'), WIDE)} ELSE {lane_of(hot('waiting'), GROUP)} END"
        self._insert(
            Ticket,
            self.size.groups,
            lane=f"CASE WHEN n < {many + few} THEN {wide} ELSE n END",
            ticket=f"CASE WHEN n < {many + few} THEN n ELSE 0 END",
            message_id="n + 1",
        )
        self._insert(
            Group,
            self.size.groups,
            lane="n",
            queue=self._spread(),
            name=self._joined("'group-'", "n"),
            width="CASE WHEN n %% 2 = 0 THEN 3 END",
            is_paused="CASE WHEN n %% 3 = 0 THEN TRUE ELSE FALSE END",
            paused_at=f"CASE WHEN n %% 3 = 0 THEN {self._at('-60 - n')} END",
        )

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

        self._insert(
            QueueTotal,
            queues,
            queue=self._joined("'queue-'", "(1000 + n)"),
            **{name: f"1000000 * {count}" for name, count in counts.items()},
            wait=f"'{_HISTOGRAM}'",
            run=f"'{_HISTOGRAM}'",
        )
        self._insert(StatisticProgress, 1, id="1", fresh_to=self.dialect.sql.now, settled_to=self._at("-60"))

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
            is_added="TRUE",  # so that their pages are forms
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
        self._insert(StreamProgress, 5, name=self._joined("'stream:stream-'", "n"))
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

    # -- which queue --------------------------------------------------------------------------------------

    def _in_hot(self, count: int) -> int:
        return int(count * self.size.share)

    def _queue(self, state: str, count: int) -> str:
        return f"CASE WHEN n < {self._in_hot(count)} THEN '{hot(state)}' ELSE {self._spread()} END"

    def _spread(self) -> str:
        return self._joined("'queue-'", f"(1000 + n %% {self.size.queues})")
