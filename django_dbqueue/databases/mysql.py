"""MySQL and MariaDB: the index is forced, ranges are spelled out, and UPDATE returns no rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.dialect import ServerDialect
from django_dbqueue.databases.events_sql import EventsSQL
from django_dbqueue.databases.flows_sql import MySQLFlowsSQL
from django_dbqueue.databases.lanes_sql import MySQLLanesSQL
from django_dbqueue.databases.messages_sql import MessagesSQL
from django_dbqueue.databases.once_sql import MySQLOnceSQL
from django_dbqueue.databases.partitions_sql import MySQLPartitionsSQL
from django_dbqueue.databases.queues_sql import MySQLQueuesSQL
from django_dbqueue.databases.rates_sql import MySQLRatesSQL
from django_dbqueue.databases.results_sql import ResultsSQL
from django_dbqueue.databases.sessions_sql import MySQLSessionsSQL
from django_dbqueue.databases.statements import CLAIM_INDEX, LIVE_KEY, Change, Claim, Kept, Mark, Params, Statement
from django_dbqueue.databases.steps_sql import MySQLStepsSQL
from django_dbqueue.databases.vocabulary import Vocabulary


class MySQLVocabulary(Vocabulary):
    """The terms of both servers; neither needs distinguishing."""

    quote = "`"
    now = "UTC_TIMESTAMP(6)"
    session_id = "CONNECTION_ID()"
    database = "DATABASE()"
    use_claim_index = f" FORCE INDEX ({CLAIM_INDEX})"
    use_primary_key = use_ids = " FORCE INDEX (PRIMARY)"
    use_live_key = f" FORCE INDEX ({LIVE_KEY})"
    use_event_failure = " FORCE INDEX (dbqueue_event_failure)"
    use_event_age = " FORCE INDEX (dbqueue_event_at)"
    use_event_message = " FORCE INDEX (dbqueue_event_message)"
    order_of_dead = "id"
    """MariaDB knows that a column that IS NULL needs no sorting, but sorts if it is named anyway."""
    use_hour_index = " FORCE INDEX (dbqueue_statistic_hour)"
    updates_return_rows = False
    ignore_duplicate = ""
    keep_standing = " ON DUPLICATE KEY UPDATE django_dbqueue_message.id = django_dbqueue_message.id"
    """Not INSERT IGNORE, which also hides every other error of a row."""
    use_staged_run = " FORCE INDEX (PRIMARY)"
    delete_staged = "DELETE s FROM django_dbqueue_stagedmessage AS s FORCE INDEX (PRIMARY)"
    sorted_beyond_null = True  # MariaDB sorts all dead rows of a queue if both are named (5,011 rows read for 10)
    ignore_same_name = " ON DUPLICATE KEY UPDATE name = name"
    ignore_in_line = " ON DUPLICATE KEY UPDATE message_id = django_dbqueue_line.message_id"
    ignore_taken_ticket = " ON DUPLICATE KEY UPDATE message_id = django_dbqueue_ticket.message_id"
    ignore_same_lane = " ON DUPLICATE KEY UPDATE lane = django_dbqueue_group.lane"
    clock_us = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
    join_each = "STRAIGHT_JOIN"
    ignore_kept_result = " ON DUPLICATE KEY UPDATE message_id = message_id"
    returns_kept_failure = True
    keep_failure = " ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)"
    padded_text = True

    def plus(self, moment: str, seconds: str) -> str:
        return f"DATE_ADD({moment}, INTERVAL ROUND(({seconds}) * 1000000) MICROSECOND)"

    def as_text(self, moment: str) -> str:
        return f"CAST({moment} AS CHAR)"  # mysqlclient builds a datetime from six slices, in Python: 1 µs each

    def on_same(self, key: str) -> str:  # noqa: ARG002
        return " ON DUPLICATE KEY UPDATE"

    def replace_expired(self, table: str, key: str, columns: Sequence[str]) -> str:
        # In the order of the columns: expires_at, which all of them read, is the last to change
        assert columns[-1] == "expires_at"
        changes = (f"{name} = IF({table}.expires_at <= {self.now}, VALUES({name}), {table}.{name})" for name in columns)
        return f"{self.on_same(key)} {', '.join(changes)}"

    def id_in(self, ids: Sequence[int]) -> Statement:
        # mysqlclient also writes parameters into the text, in one or two Python calls each: 1.5 µs per id
        if len(ids) < 2:
            return super().id_in(ids)
        return Statement(f"id IN ({', '.join([f'{each:d}' for each in ids])})", ())

    def values(self, names: Sequence[str], rows: Sequence[Sequence[int]]) -> Statement:
        columns = ", ".join(f"{name} BIGINT PATH '$[{place}]'" for place, name in enumerate(names))
        return Statement(f"JSON_TABLE(%s, '$[*]' COLUMNS ({columns})) AS given", (json.dumps([*map(list, rows)]),))

    def after(self, mark: Mark | None) -> tuple[str, Params]:
        # neither server uses a range for a row comparison, or for >= with a filter (measured: 2 to 3 times the cost)
        if mark is None:
            return super().after(mark)
        due, message_id = mark
        return (
            f"((available_at = %s AND id > %s) OR (available_at > %s AND available_at <= {self.now}))",
            (due, message_id, due),
        )

    def behind(self, columns: tuple[str, str], place: tuple[int, int]) -> Statement:
        first, second = columns
        return Statement(f"(({first} = %s AND {second} > %s) OR {first} > %s)", (*place, place[0]))


class MySQLMessagesSQL(MessagesSQL):
    """Deletes by a join, since the servers delete few rows by id with many locks."""

    def delete(self, ids: Sequence[int]) -> Statement:
        return _delete_from(self.sql, self.sql.message, ids)

    def settle(self, change: Change, claims: Sequence[Claim], *, returning: bool = False) -> Statement:
        if not change.removes:
            return super().settle(change, claims, returning=returning)
        rows, fence = self.delete([claim.id for claim in claims]), self.held(claims)
        return Statement(f"{rows.sql} WHERE {fence.sql}", rows.params + fence.params)


class MySQLEventsSQL(EventsSQL):
    """The same for events."""

    def delete(self, ids: Sequence[int]) -> Statement:
        return _delete_from(self.sql, self.sql.event, ids)


class MySQLResultsSQL(ResultsSQL):
    """Leaves the driver one parameter for each result: escaping one is a call of Python's, and costs 1 µs."""

    def insert(self, results: Sequence[tuple[int, Kept]]) -> Statement:
        until = {
            seconds: self.sql.plus(self.sql.now, repr(seconds)) for seconds in {kept.seconds for _, kept in results}
        }
        rows = [
            f"({message_id:d}, %s, '{kept.content_type}', {until[kept.seconds]}, {kept.flow or 'NULL'})"
            for message_id, kept in results
        ]
        return Statement(
            f"{self.insert_into} VALUES {', '.join(rows)}{self.sql.ignore_kept_result}",
            tuple([kept.body for _, kept in results]),
        )


def _delete_from(sql: Vocabulary, table: str, ids: Sequence[int]) -> Statement:
    # DELETE … WHERE id IN reads a small table in full and waits for everybody's locks, and MariaDB's takes no FORCE
    # INDEX; a join looks the rows up one by one (measured at 900 of 100,000: 24 ms instead of 11)
    return Statement(
        "DELETE m FROM JSON_TABLE(%s, '$[*]' COLUMNS (named_id BIGINT PATH '$')) AS named "
        f"STRAIGHT_JOIN {table} AS m{sql.use_primary_key} ON m.id = named.named_id",
        (json.dumps(list(ids)),),
    )


MYSQL: Final = ServerDialect(
    MySQLVocabulary(),
    sessions=MySQLSessionsSQL,
    partitions=MySQLPartitionsSQL,
    events=MySQLEventsSQL,
    flows=MySQLFlowsSQL,
    lanes=MySQLLanesSQL,
    rates=MySQLRatesSQL,
    messages=MySQLMessagesSQL,
    once=MySQLOnceSQL,
    queues=MySQLQueuesSQL,
    results=MySQLResultsSQL,
    steps=MySQLStepsSQL,
)
