"""What is wrong with a server, by the code that its judge gives: the system check, its text and its hint.

A code that is not here is the doctor's alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from django.core import checks

from django_dbqueue.databases.facts import Judgement


class Wrong(NamedTuple):
    """A system check; the texts are filled with the judgement's words, and the alias."""

    id: str
    text: str
    hint: str


TEXTS: Final[Mapping[str, Wrong]] = {
    "no SKIP LOCKED": Wrong(
        "dbqueue.E012",
        "The server of the database {alias!r} doesn't support SELECT … FOR UPDATE SKIP LOCKED, with which each message "
        "goes to one claimer and no claimer waits for another.",
        "Use MySQL 8.0.22 or newer, or MariaDB 10.6 or newer.",
    ),
    "no list of sessions": Wrong(
        "dbqueue.E012",
        "MySQL {version}, which has the database {alias!r}, has no table performance_schema.processlist, in which the "
        "queue sees whether the session of a dead worker is gone.",
        "Use MySQL 8.0.22 or newer.",
    ),
    "psycopg 2": Wrong(
        "dbqueue.E012",
        "Django reaches the database {alias!r} with psycopg 2, which the queue doesn't support.",
        "Install psycopg 3.2 or newer, which Django then uses: pip install 'django-dbqueue[postgres]'.",
    ),
    "no RETURNING": Wrong(
        "dbqueue.E012",
        "The SQLite library of the database {alias!r} has no RETURNING, which tells the queue what it wrote.",
        "Use SQLite 3.35 or newer: a newer Python or operating system includes it.",
    ),
    "no JSON": Wrong(
        "dbqueue.E012",
        "The SQLite library of the database {alias!r} has no JSON functions, with which the queue names many messages "
        "at once.",
        "Use SQLite 3.38 or newer, which has them unless it was compiled without, or an older one with JSON1.",
    ),
    "no transactions": Wrong(
        "dbqueue.E013",
        "The table {table} in the database {alias!r} uses {engine}, which has no transactions and no row locks: "
        "messages can be lost, or delivered to two workers at once.",
        "Stop the workers and run: ALTER TABLE {table} ENGINE=InnoDB; and set the server's default_storage_engine to "
        "InnoDB.",
    ),
    "not strict": Wrong(
        "dbqueue.E014",
        "Sessions of the database {alias!r} are not strict (sql_mode is {mode!r}): the server truncates values that "
        "don't fit instead of refusing them.",
        "Add STRICT_TRANS_TABLES to the server's sql_mode, or in OPTIONS: "
        "'init_command': \"SET sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')\".",
    ),
    "statements logged": Wrong(
        "dbqueue.E015",
        "The server of the database {alias!r} writes statements to its binary log. InnoDB then refuses every write of "
        "a READ COMMITTED transaction (error 1665), and a replica would pick different rows.",
        "Set the server's binlog_format to ROW (MIXED works too).",
    ),
    "session without autocommit": Wrong(
        "dbqueue.E017",
        "Sessions of the database {alias!r} have autocommit off on the server, though Django says that it is on: a "
        "message enqueued outside atomic() is lost when its session ends.",
        "Find what switches it off after connecting (such as a receiver of connection_created), and remove it.",
    ),
    "server without autocommit": Wrong(
        "dbqueue.E017",
        "Sessions of the server of the database {alias!r} start with autocommit off. Django and the pipeline switch it "
        "on in their own; any other program that calls the routines loses what it doesn't commit, although each call "
        "succeeded.",
        "Set the server's autocommit to 1 (SET GLOBAL autocommit = 1, and in its option file); or, if every such "
        "program commits, silence this check.",
    ),
    "read-only file": Wrong(
        "dbqueue.E018",
        "The database {alias!r} is read-only: it refuses writes ({names}), so nothing can be enqueued, claimed or "
        "acknowledged here.",
        "Let the account that runs this write the file and its directory, where SQLite keeps its log; leave PRAGMA "
        "query_only out.",
    ),
    "confirms early": Wrong(
        "dbqueue.W010",
        "The server of the database {alias!r} confirms a commit before it is safely on disk ({weak}): after a {crash}, "
        "enqueued messages can be lost, and acknowledged ones delivered again.",
        "Set {cure}, or accept the risk and silence this check.",
    ),
    "loses power": Wrong(
        "dbqueue.W010",
        "PRAGMA synchronous is {level} in the database {alias!r}: a power failure can {danger} and so lose enqueued "
        "messages.",
        "Put PRAGMA synchronous=FULL into 'init_command' of OPTIONS, or accept the risk and silence this check.",
    ),
    "isolation": Wrong(
        "dbqueue.W011",
        "Transactions in the database {alias!r} are {level}: those that enqueue or settle wait for each other, "
        "deadlock or fail to serialise more often. If the transaction is yours, you have to retry it.",
        "Set 'isolation_level' in OPTIONS to READ COMMITTED, or keep transactions that enqueue short and retry them.",
    ),
    "no read timeout": Wrong(
        "dbqueue.W012",
        "OPTIONS of the database {alias!r} has no read_timeout: if a server or a firewall vanishes without closing the "
        "connection, a worker waits for an answer forever.",
        "Set 'connect_timeout': 10, 'read_timeout': 120 and 'write_timeout': 120, in seconds; read_timeout longer than "
        "your longest statement and innodb_lock_wait_timeout.",
    ),
    "small packets": Wrong(
        "dbqueue.W013",
        "DBQUEUE['MAX_PAYLOAD_BYTES'] allows {limit:,} bytes, which may take {needed:,} in a statement, but the server "
        "of the database {alias!r} accepts packets of up to {packet:,} (max_allowed_packet): enqueue of a large "
        "payload fails with what looks like a network error.",
        "Set the server's max_allowed_packet to {wanted:,} or more, or MAX_PAYLOAD_BYTES to {allowed:,} or less.",
    ),
    "small packets for many": Wrong(
        "dbqueue.W013",
        "enqueue_many() sends statements of up to {together:,} bytes, but the server of the database {alias!r} accepts "
        "packets of up to {packet:,} (max_allowed_packet): many large payloads at once fail with what looks like a "
        "network error.",
        "Set the server's max_allowed_packet to {together:,} or more.",
    ),
    "locks late": Wrong(
        "dbqueue.W014",
        "Transactions in the database {alias!r} begin {mode}: a transaction that reads before it writes fails at once "
        "with 'database is locked' if a worker writes in the meantime, whatever the timeout.",
        "Set 'transaction_mode': 'IMMEDIATE' and 'timeout': 20 in OPTIONS.",
    ),
    "no log ahead": Wrong(
        "dbqueue.W015",
        "The file of the database {alias!r} has no write-ahead log (PRAGMA journal_mode is {mode}): each reader blocks "
        "the workers, and they block all readers.",
        "Set 'init_command': 'PRAGMA journal_mode=WAL' in OPTIONS; not on a network file system.",
    ),
    "few characters": Wrong(
        "dbqueue.W016",
        "Sessions of the database {alias!r} use {charset}, which lacks some characters (such as emoji): payloads that "
        "have them fail at enqueue.",
        "Set 'charset': 'utf8mb4' in OPTIONS, and set no other in init_command.",
    ),
    "encoding of few": Wrong(
        "dbqueue.W016",
        "The database {alias!r} has the encoding {encoding}, which can't hold every character: payloads with other "
        "characters fail at enqueue, or are changed.",
        "Create a database with ENCODING 'UTF8' and move the queue to it.",
    ),
    "several writers": Wrong(
        "dbqueue.W017",
        "The server of the database {alias!r} belongs to a cluster ({cluster}) that may have several writers. Row "
        "locks don't reach beyond a node, so two claimers on two nodes can claim the same message, and one of "
        "them fails at commit.",
        "Send all statements of the queue to one node (the proxy's writer), then silence this check.",
    ),
    "others create": Wrong(
        "dbqueue.W018",
        "Other accounts may create objects in the schema {schema} of the queue's tables, in the database {alias!r}: "
        "{who}. A function or an operator that matches better than PostgreSQL's own runs with the rights of every "
        "account that looks up names there, as Django does.",
        "REVOKE CREATE ON SCHEMA {schema} FROM {who}; or silence this check if they are trusted with everything that "
        "this account may do.",
    ),
    "old routines": Wrong(
        "dbqueue.W019",
        "{count} stored routines in the database {alias!r} are of an older version, which runs functions of any "
        "account that may create functions in their schema with the rights of the routines' owner: {first} and so on.",
        "Run: manage.py queue_routines install --database {alias}",
    ),
}


def messages(alias: str, judgements: Iterable[Judgement]) -> Iterator[checks.CheckMessage]:
    """Yield what is wrong with a database."""
    for code, words in judgements:
        if code in TEXTS:
            number, text, hint = TEXTS[code]
            kind = checks.Error if ".E" in number else checks.Warning
            filled = {"alias": alias, **words}
            yield kind(text.format(**filled), hint=hint.format(**filled), id=number)
