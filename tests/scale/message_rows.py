"""Rows of messages in every state, of their groups and of the archive; a state's hot queue has most of its rows."""

from __future__ import annotations

from typing import Final

from django.db import connection

from django_dbqueue.databases import Server
from django_dbqueue.keys import key_hash, lane_of
from django_dbqueue.models import ArchivedMessage, Group, Line, Message, Ticket
from django_dbqueue.statuses import DONE, NEW, RUNNING
from django_dbqueue.tasks.task_headers import TASK as TASK_HEADER
from tests.scale.inserting import Inserting
from tests.scale.size import GROUP, KEY, TASK, WIDE, Size, hot

DAY: Final = 86_400
_HEADERS: Final = f'{{"{TASK_HEADER}":"{TASK}"}}'
_ERROR: Final = 'Traceback (most recent call last):\n  File "app/mail.py", line 7, in send\nValueError: no such user'


class MessageRows(Inserting):
    """Each method fills one table, or one state of messages."""

    def __init__(self, server: Server, size: Size) -> None:
        super().__init__(server)
        self.size = size

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
            return self.server.parked
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

    # -- which queue --------------------------------------------------------------------------------------

    def _in_hot(self, count: int) -> int:
        return int(count * self.size.share)

    def _queue(self, state: str, count: int) -> str:
        return f"CASE WHEN n < {self._in_hot(count)} THEN '{hot(state)}' ELSE {self._spread()} END"

    def _spread(self) -> str:
        return self._joined("'queue-'", f"(1000 + n %% {self.size.queues})")
