"""A server that refuses what is about one row: by a trigger, or by a foreign key that nobody told Django of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Literal

from django.db import connection

from django_dbqueue.models import Message

TABLE: Final = "django_dbqueue_message"
NAME: Final = "dbqueue_test_refuses"
Why = Literal["signals", "divides by zero", "names what is gone", "has a code of its own", "has two rows"]
_ACTS: Final[dict[str, dict[Why, str]]] = {
    "sqlite": {
        "signals": "SELECT RAISE(ABORT, 'as told')",
        "divides by zero": "SELECT json('{{')",  # which is NULL here
        "names what is gone": "INSERT INTO dbqueue_gone VALUES (1)",
        "has a code of its own": "SELECT abs(-9223372036854775807 - 1)",
        "has two rows": "SELECT json_extract('{{}}', 'x')",
    },
    "mysql": {
        "signals": "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'as told'",
        "divides by zero": "INSERT INTO django_dbqueue_mutex (name) VALUES (1 DIV 0)",
        "names what is gone": "INSERT INTO dbqueue_gone VALUES (1)",
        "has a code of its own": "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'as told', MYSQL_ERRNO = 30001",
        "has two rows": "SET @dbqueue_test = (SELECT 1 UNION SELECT 2)",
    },
    "postgresql": {
        "signals": "RAISE EXCEPTION 'as told'",
        "divides by zero": "PERFORM 1 / 0",
        "names what is gone": "INSERT INTO dbqueue_gone VALUES (1)",
        "has a code of its own": "RAISE EXCEPTION 'as told' USING ERRCODE = 'ZZ001'",
        "has two rows": "PERFORM (SELECT 1 UNION SELECT 2)",
    },
}
WHYS: Final = tuple(_ACTS["sqlite"])
_MAKE: Final = {
    "sqlite": [f"CREATE TRIGGER {NAME} BEFORE {{event}} ON {{table}} WHEN {{when}} BEGIN {{act}}; END"],
    "mysql": [
        f"CREATE TRIGGER {NAME} BEFORE {{event}} ON {{table}} FOR EACH ROW BEGIN IF {{when}} THEN {{act}}; END IF; END"
    ],
    "postgresql": [
        f"CREATE FUNCTION {NAME}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {{act}}; RETURN NULL; END $$",
        f"CREATE TRIGGER {NAME} BEFORE {{event}} ON {{table}} FOR EACH ROW WHEN ({{when}}) EXECUTE FUNCTION {NAME}()",
    ],
}
_DROP: Final = {
    "sqlite": [f"DROP TRIGGER {NAME}"],
    "mysql": [f"DROP TRIGGER {NAME}"],
    "postgresql": [f"DROP TRIGGER {NAME} ON {{table}}", f"DROP FUNCTION {NAME}()"],
}


@contextmanager
def refusing(
    event: Literal["INSERT", "UPDATE", "DELETE"], when: str, *, table: str = TABLE, why: Why = "signals"
) -> Iterator[None]:
    """Refuse a change of rows where a condition on OLD and NEW is true, by a trigger."""
    act = _ACTS[connection.vendor][why]
    _run([sql.format(event=event, when=when, table=table, act=act) for sql in _MAKE[connection.vendor]])
    try:
        yield
    finally:
        _run([sql.format(table=table) for sql in _DROP[connection.vendor]])


def pointing_at(*messages: Message) -> AbstractContextManager[None]:
    """Let rows of a table point to messages, by a constraint like those that Django makes."""
    return pointing_to(TABLE, "id", "bigint", *[message.pk for message in messages])


@contextmanager
def pointing_to(table: str, column: str, kind: str, *keys: object) -> Iterator[None]:
    """Let rows of another table point to rows of this one, in the same way."""
    later = "" if connection.vendor == "mysql" else " DEFERRABLE INITIALLY DEFERRED"
    key = f"FOREIGN KEY (points_to) REFERENCES {table} ({column}){later}"
    rows = ", ".join(f"({each!r})" for each in keys)
    _run([f"CREATE TABLE {NAME} (points_to {kind}, {key})", f"INSERT INTO {NAME} (points_to) VALUES {rows}"])
    try:
        yield
    finally:
        _run([f"DROP TABLE {NAME}"])


def _run(statements: list[str]) -> None:
    with connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)
