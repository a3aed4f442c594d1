"""What a handler can leave for the next one, and what the next one sees of it."""

from __future__ import annotations

import asyncio
import gc
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone, translation

from django_dbqueue import consumer
from django_dbqueue.models import Queue
from tests.consumers_app.noting import note

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_dbqueue.models import Message

left: ContextVar[str] = ContextVar("left", default="nothing")

SESSIONS = {
    "mysql": [
        "SET SESSION TRANSACTION READ ONLY",
        "SET TRANSACTION READ ONLY",
        "USE information_schema",
        "/* of a tracer */ use information_schema",
        "SELECT 1; -- and then\nUSE information_schema",
        "SET @left_behind = 1",
        "SELECT @left_behind := 1",
        "SET sql_mode = ''",
        "CREATE TEMPORARY TABLE left_behind (n int)",
        "SELECT GET_LOCK('left behind', 0)",
        "SELECT 1;-- x\nBEGIN",
        "SELECT 1; # x\nBEGIN",
        "SELECT ';'; /* x */ START TRANSACTION READ ONLY",
        "by select_db",
    ],
    "postgresql": [
        "SET default_transaction_read_only = on",
        "SET search_path = pg_catalog",
        "SELECT 1; -- and then\nSET search_path = pg_catalog",
        "SELECT set_config('left.behind', '1', false)",
        "SET TIME ZONE 'Asia/Tokyo'",
        "CREATE TEMP TABLE left_behind (n int)",
        "SELECT pg_advisory_lock(4711)",
        "SELECT 1;-- x\nBEGIN",
        "by callproc",
    ],
    "sqlite": [
        "PRAGMA query_only = 1",
        "PRAGMA foreign_keys = OFF",
        "ATTACH ':memory:' AS left_behind",
        "CREATE TEMPORARY TABLE left_behind (n int)",
        "BEGIN",
    ],
}
WITHOUT_SQL: dict[str, Callable[[Any], object]] = {
    "by select_db": lambda cursor: cursor.db.connection.select_db("information_schema"),
    "by callproc": lambda cursor: cursor.callproc("set_config", ["left.behind", "1", False]),
}
IN_TRANSACTION = {
    "mysql": "SET @left_behind = 1",
    "postgresql": "SET TIME ZONE 'Asia/Tokyo'",
    "sqlite": "CREATE TEMPORARY TABLE left_behind (n int)",
}
"""What a handler may send whose own rows are still to be committed."""
_FACTS = {
    "mysql": ["SELECT DATABASE(), @left_behind, @@sql_mode, IS_USED_LOCK('left behind')"],
    "postgresql": [
        "SELECT current_setting('default_transaction_read_only'), current_setting('search_path')",
        "SELECT current_setting('left.behind', true), current_setting('TimeZone')",
        "SELECT to_regclass('pg_temp.left_behind')::text",
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
    ],
    "sqlite": [
        "PRAGMA query_only",
        "PRAGMA foreign_keys",
        "SELECT count(*) FROM pragma_database_list WHERE name = 'left_behind'",
        "SELECT count(*) FROM sqlite_temp_master",
    ],
}


def leave(statement: str = "") -> None:
    """Leave a context, and the session after a statement."""
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    left.set("something")
    with connection.cursor() as cursor:
        WITHOUT_SQL.get(statement, lambda cursor: cursor.execute(statement or "SELECT 1"))(cursor)


def seen(name: str = "") -> dict[str, Any]:
    """What is there at the start of a handler; with a name, a row is written too."""
    session: list[Any] = []
    around = {"context": context_seen(), "queries": len(connection.queries_log), "session": session}
    for fact in _FACTS[connection.vendor]:
        with connection.cursor() as cursor:
            cursor.execute(fact)
            session.append(cursor.fetchall())
    if name:
        Queue.objects.create(name=name)
    return around


def context_seen() -> list[str | None]:
    return [translation.get_language(), timezone.get_current_timezone_name(), left.get()]


def _leave(_message: Message, what: dict[str, Any]) -> None:
    leave(what.get("statement", ""))


def _read(message: Message, _what: dict[str, Any]) -> None:
    note("seen", message, **seen(f"effect-{message.pk}"))


def _count_queries_kept(message: Message, _what: dict[str, Any]) -> None:
    """Count what the connections of all threads of this process keep."""
    kept = [len(each.queries_log) for each in gc.get_objects() if isinstance(each, BaseDatabaseWrapper)]
    note("kept", message, statements=sum(kept))


DEEDS: dict[str, Callable[[Message, dict[str, Any]], None]] = {
    "leave behind": _leave,
    "look": _read,
    "count queries kept": _count_queries_kept,
}


@consumer("leaving-batches", batch=10, transactional=True, max_reads=1)
def leave_in_batches(messages: list[Message]) -> None:
    """Look, leave something, and fail, so that the halves of the list come again."""
    note("seen", messages[0], context=context_seen())
    leave()
    if len(messages) > 1:
        raise ValueError("as told")


@consumer("leaving-async", max_reads=1)
async def leave_asynchronously(message: Message) -> None:
    loop = asyncio.get_running_loop()
    contexts = [context_seen(), await sync_to_async(context_seen)(), await loop.run_in_executor(None, context_seen)]
    note("seen", message, contexts=contexts, queries=(await sync_to_async(seen)())["queries"])
    translation.activate("de")
    left.set("something")
    await sync_to_async(leave)()
    await loop.run_in_executor(None, leave)
