"""A server that refuses what is about one message: by a trigger, or by a foreign key that nobody told Django of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from django.db import connection

from django_dbqueue.models import Message

TABLE: Final = "django_dbqueue_message"
NAME: Final = "dbqueue_test_refuses"
_MAKE: Final = {
    "sqlite": [
        f"CREATE TRIGGER {NAME} BEFORE {{event}} ON {TABLE} WHEN {{when}} BEGIN SELECT RAISE(ABORT, 'as told'); END"
    ],
    "mysql": [
        (
            f"CREATE TRIGGER {NAME} BEFORE {{event}} ON {TABLE} FOR EACH ROW BEGIN "
            "IF {when} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'as told'; END IF; END"
        )
    ],
    "postgresql": [
        f"CREATE FUNCTION {NAME}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'as told'; END $$",
        f"CREATE TRIGGER {NAME} BEFORE {{event}} ON {TABLE} FOR EACH ROW WHEN ({{when}}) EXECUTE FUNCTION {NAME}()",
    ],
}
_DROP: Final = {
    "sqlite": [f"DROP TRIGGER {NAME}"],
    "mysql": [f"DROP TRIGGER {NAME}"],
    "postgresql": [f"DROP TRIGGER {NAME} ON {TABLE}", f"DROP FUNCTION {NAME}()"],
}


@contextmanager
def refusing(event: Literal["UPDATE", "DELETE"], when: str) -> Iterator[None]:
    """Refuse a change of messages where a condition on OLD and NEW is true."""
    _run([sql.format(event=event, when=when) for sql in _MAKE[connection.vendor]])
    try:
        yield
    finally:
        _run(_DROP[connection.vendor])


@contextmanager
def pointing_at(*messages: Message) -> Iterator[None]:
    """Let rows of a table point to messages, by a constraint like those that Django makes."""
    later = "" if connection.vendor == "mysql" else " DEFERRABLE INITIALLY DEFERRED"
    key = f"FOREIGN KEY (message_id) REFERENCES {TABLE} (id){later}"
    rows = ", ".join(f"({message.pk})" for message in messages)
    _run(
        [
            f"CREATE TABLE {NAME} (message_id bigint, {key})",
            f"INSERT INTO {NAME} (message_id) VALUES {rows}",
        ]
    )
    try:
        yield
    finally:
        _run([f"DROP TABLE {NAME}"])


def _run(statements: list[str]) -> None:
    with connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)
