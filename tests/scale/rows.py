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

from django_dbqueue.databases import server_of
from django_dbqueue.flows.flow_progress import SHOWN
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
from django_dbqueue.statuses import NEW
from tests.scale.message_rows import DAY, MessageRows
from tests.scale.size import HOT, Size, hot, name_of

if TYPE_CHECKING:
    pass

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
_HISTOGRAM: Final = json.dumps([number for bucket in range(320, 560) for number in (bucket, 250_000)])
"""Of sixty million times, from a millisecond to a fifth of a second, in every bucket between."""
OPERATOR = "operator-at-scale"


def fill(size: Size) -> None:
    """Fill tables that are empty."""
    Builder(server_of(connection), size).run()
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
    User.objects.filter(username=OPERATOR).delete()


class Builder(MessageRows):
    """Fills all tables; each method of its own one that the console keeps beside the messages."""

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
        self._insert(StatisticProgress, 1, id="1", fresh_to=self.server.now, settled_to=self._at("-60"))

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
        user, _ = User.objects.get_or_create(username=OPERATOR)
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
