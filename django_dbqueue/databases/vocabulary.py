"""The terms in which servers differ, and the fragments that all statements are built from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache

from django_dbqueue.databases.statements import PARKED, Mark, Params, Statement


@cache
def _listed(names: tuple[str, ...], quote: str, prefix: str) -> str:
    return ", ".join(f"{prefix}{quote}{name}{quote}" for name in names)


class Vocabulary(ABC):
    """The terms in which servers differ, and the fragments that all statements are built from."""

    archived = "django_dbqueue_archivedmessage"
    batch = "django_dbqueue_exportbatch"
    edge = "django_dbqueue_edge"
    event = "django_dbqueue_messageevent"
    event_value = "django_dbqueue_eventvalue"
    failure = "django_dbqueue_failure"
    flow = "django_dbqueue_flow"
    flow_part = "django_dbqueue_flowpart"
    group = "django_dbqueue_group"
    line = "django_dbqueue_line"
    message = "django_dbqueue_message"
    minute = "django_dbqueue_queueminute"
    mutex = "django_dbqueue_mutex"
    once = "django_dbqueue_once"
    progress = "django_dbqueue_statisticprogress"
    published = "django_dbqueue_publishedjob"
    queue = "django_dbqueue_queue"
    reader = "django_dbqueue_historyreader"
    replica_beat = "django_dbqueue_replicabeat"
    result = "django_dbqueue_result"
    schedule = "django_dbqueue_schedule"
    staged = "django_dbqueue_stagedmessage"
    statistic = "django_dbqueue_queuestatistic"
    step = "django_dbqueue_step"
    stream = "django_dbqueue_stream"
    stream_claim = "django_dbqueue_streamclaim"
    stream_progress = "django_dbqueue_streamprogress"
    ticket = "django_dbqueue_ticket"
    total = "django_dbqueue_queuetotal"
    waiter = "django_dbqueue_waiter"
    worker = "django_dbqueue_worker"

    quote = '"'
    now = ""
    parked = f"'{PARKED}'"
    """SQL for the moment at which a message is due that waits for something other than time."""
    session_id = ""
    """SQL for the id of the database session, or '' where the caller passes a number."""
    use_claim_index = ""
    use_primary_key = ""
    """Keeps rows named by id from being found by a scan, which would wait for everybody's locks."""
    use_ids = ""
    """The same for messages; SQLite, with statistics, would read all that are parked for some of them."""
    use_live_key = ""
    """The same for rows named by key."""
    use_event_failure = ""
    """Keeps the server from finding a group's events (below: a message's) by a scan, or by MySQL's anti-join."""
    use_event_message = ""
    use_event_age = ""
    use_hour_index = ""
    use_staged_run = ""
    """Keeps a run's rows from being found by a scan of all runs."""
    delete_staged = "DELETE FROM django_dbqueue_stagedmessage"
    """The same for a DELETE."""
    by_no_index = ""
    """Placed before a column: it is compared, but not looked up in an index."""
    order_of_dead = "available_at, id"
    """The claim index's order where ``available_at`` is NULL, in the form the planner recognises."""
    order_of_few = "id"
    """Orders rows by id where an index other than the primary key is to find them."""
    keep_order = ""
    """Makes rows come in index order for the transaction, however few the server believes there are."""
    forget_order = ""
    """Undoes that."""
    skip_locked = " FOR UPDATE SKIP LOCKED"
    lock_row = " FOR UPDATE"
    rows_of_an_insert = 500
    """At most, in one statement."""
    updates_return_rows = True
    """Whether UPDATE … RETURNING exists, so that one statement claims or settles and reports which rows."""
    ignore_duplicate = " ON CONFLICT (key_hash, live) DO NOTHING"
    """Ends an INSERT so that a taken key writes nothing; '' if the error is caught instead."""
    ignore_same_lane = " ON CONFLICT (lane) DO NOTHING"
    """The same for the row of a group."""
    keep_standing = " ON CONFLICT (key_hash, live) DO NOTHING"
    """The same without any error, row by row: a row whose key is taken is left out, and not counted."""
    ignore_same_name = " ON CONFLICT (name) DO NOTHING"
    """The same for a mutex."""
    ignore_in_line = " ON CONFLICT (lane, message_id) DO NOTHING"
    """The same for a message that stands in its line already; below, for a ticket that somebody has."""
    ignore_taken_ticket = " ON CONFLICT (lane, ticket) DO NOTHING"
    ignore_kept_result = " ON CONFLICT (message_id) DO NOTHING"
    """The same for a result that a commit wrote whose reply was lost; its ack, which comes first, moves no row then."""
    returns_kept_failure = False
    """Whether an INSERT that meets the same group returns its id as the last inserted one; else it returns no row."""
    keep_failure = " ON CONFLICT (queue, fingerprint) DO NOTHING RETURNING id"
    notifies = False
    padded_text = False
    """Whether 'a' and 'a ' count as equal, even in exact collations."""
    database = "''"
    """SQL for the name of the database, where all databases of a server share named locks."""
    sorted_beyond_null = False
    """Whether the server sorts entries whose third column IS NULL by the fourth; else both must be named."""

    clock_us = ""
    """SQL for the clock's time as a whole number of microseconds since 1970."""
    join_each = "JOIN"
    """Joins a table of values with a table in which each value is looked up, in this order."""

    def clock(self) -> Statement:
        """Read the server's clock."""
        return Statement(f"SELECT {self.now}", ())

    @property
    def is_paused(self) -> str:
        """SQL for 'a pause of this queue holds': its end, if it has one, is still to come."""
        return f"is_paused AND (paused_until IS NULL OR paused_until > {self.now})"

    @abstractmethod
    def plus(self, moment: str, seconds: str) -> str:
        """Return SQL for a moment plus a number of seconds (both SQL)."""

    def after(self, mark: Mark | None) -> tuple[str, Params]:
        """Return SQL for 'due, and after the mark' as a bounded range of the claim index."""
        if mark is None:
            return f"available_at <= {self.now}", ()
        return f"(available_at, id) > (%s, %s) AND available_at <= {self.now}", mark

    def behind(self, columns: tuple[str, str], place: tuple[int, int]) -> Statement:
        """Return the condition that a row comes after a place in the order of an index of two columns."""
        return Statement(f"({', '.join(columns)}) > (%s, %s)", place)

    def columns(self, names: Sequence[str], prefix: str = "") -> str:
        """Return the names as a quoted column list."""
        return _listed(tuple(names), self.quote, prefix)

    def size_of(self, text: str) -> str:
        """Return SQL for the bytes of a text, without reading it if the server can."""
        return f"OCTET_LENGTH({text})"

    @abstractmethod
    def values(self, names: Sequence[str], rows: Sequence[Sequence[int]]) -> Statement:
        """Return SQL for a table of whole numbers called ``given``, in this order, as one parameter per statement."""

    def on_same(self, key: str) -> str:
        """Return the end of an INSERT that changes the row that has this key already; what it sets follows."""
        return f" ON CONFLICT ({key}) DO UPDATE SET"

    def replace_expired(self, table: str, key: str, columns: Sequence[str]) -> str:
        """Return the end of an INSERT that replaces the row of the same key once its ``expires_at`` has passed."""
        news = ", ".join(f"{name} = excluded.{name}" for name in columns)
        return f"{self.on_same(key)} {news} WHERE {table}.expires_at <= {self.now}"

    @staticmethod
    def holes(count: int) -> str:
        """Return that many placeholders."""
        return ", ".join(["%s"] * count)

    def id_in(self, ids: Sequence[int]) -> Statement:
        """Return the condition that a row has one of these ids."""
        return Statement(f"id IN ({self.holes(len(ids))})", tuple(ids))

    def due_from_now(self, delay: float, at: object) -> tuple[str, Params]:
        """Return SQL for when a message is due: never in the past, since the claim's low-water mark relies on it."""
        if at is not None:
            return self.later_of("%s", self.now), (at,)
        if delay:
            return self.plus(self.now, "%s"), (delay,)
        return self.now, ()

    def joined(self, *texts: str) -> str:
        """Return SQL for the concatenation of texts."""
        return f"CONCAT({', '.join(texts)})"

    def as_text(self, moment: str) -> str:
        """Return SQL for a moment as ISO 8601 text, where the driver's own form is different and expensive."""
        return moment

    def later_of(self, one: str, other: str) -> str:
        """Return SQL for the later of two moments."""
        return f"GREATEST({one}, {other})"


class Subject:
    """Statements about one subject, in the terms of one server."""

    __slots__ = ("sql",)

    def __init__(self, sql: Vocabulary) -> None:
        self.sql = sql
