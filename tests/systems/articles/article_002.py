"""Article 002: "Simple Queue Service Analog in MySQL"; no author is named, its printed session is of 2022-02-16.

Its schema ``main_schema`` gets a name of its own here, so that two runs on one server don't meet.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from tests.systems.articles import ask, run

CREATE = """
CREATE TABLE main_schema.main_queue (
    id BIGINT NOT NULL AUTO_INCREMENT,
    queue_name VARCHAR(64) DEFAULT 'default',
    payload MEDIUMTEXT,
    read_cnt BIGINT DEFAULT 0,
    max_read_cnt BIGINT DEFAULT 1,
    last_read DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6),
    next_read DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6),
    invisibility_time BIGINT DEFAULT 0,
    created_at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6),
    deleted_at DATETIME(6) DEFAULT NULL,
    PRIMARY KEY(id)
)
"""
PUT = """
CREATE FUNCTION main_schema.put_message_in_queue (_queue_name VARCHAR(64), _payload MEDIUMTEXT, _max_read_cnt BIGINT, _invisibility_time BIGINT)
RETURNS BIGINT
DETERMINISTIC
BEGIN
    SET @queue_name = _queue_name;
    SET @payload = _payload;
    SET @max_read_cnt = _max_read_cnt;
    SET @invisibility_time = _invisibility_time;

    INSERT INTO main_schema.main_queue
        (queue_name, payload, max_read_cnt, invisibility_time)
    VALUES
        (@queue_name, @payload, @max_read_cnt, @invisibility_time);

    SET @LID = LAST_INSERT_ID();

    RETURN @LID;
END
"""  # noqa: E501
READ = """
        SELECT
            id
        FROM
            main_schema.main_queue
        WHERE
            next_read < @_now
            AND (max_read_cnt = 0 OR (max_read_cnt != 0 AND max_read_cnt > read_cnt))
            AND queue_name=@queue_name
            AND deleted_at IS NULL
        ORDER BY id
        LIMIT 1
        FOR UPDATE"""
GET = f"""
CREATE PROCEDURE main_schema.get_message_from_queue (IN _queue_name VARCHAR(64))
BEGIN
    START TRANSACTION;

    SET @queue_name = _queue_name;
    SET @_now = NOW(6);
    SET @id = ({READ});

    UPDATE
        main_schema.main_queue
    SET
        last_read = @_now,
        read_cnt = read_cnt + 1,
        next_read = DATE_ADD(@_now, INTERVAL invisibility_time SECOND)
    WHERE id=@id;

    SELECT * FROM main_schema.main_queue WHERE id = @id FOR UPDATE;

    COMMIT;
END
"""
DELETE = """
CREATE PROCEDURE main_schema.delete_message_from_queue (IN _message_id BIGINT)
BEGIN
    START TRANSACTION;

    SET @_id = _message_id;
    SET @_now = NOW(6);

    UPDATE
        main_schema.main_queue
    SET
        deleted_at = @_now
    WHERE id=@_id AND deleted_at IS NULL;

    COMMIT;
END
"""


class Schema:
    """The article's schema under another name; statements name it as the article does."""

    def __init__(self, name: str) -> None:
        self._name = name

    def run(self, sql: str, *params: Any) -> int:
        return run(sql.replace("main_schema", self._name), *params)

    def ask(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        return ask(sql.replace("main_schema", self._name), *params)

    def put(self, queue: str, payload: str, max_read_cnt: int | None, invisibility_time: int | None) -> int:
        sql = "SELECT main_schema.put_message_in_queue(%s, %s, %s, %s)"
        return int(self.ask(sql, queue, payload, max_read_cnt, invisibility_time)[0][0])

    def get(self, queue: str) -> int | None:
        """The id of the message that the procedure gives, or None."""
        with connection.cursor() as cursor:
            cursor.execute(f"CALL {self._name}.get_message_from_queue(%s)", [queue])
            found = cursor.fetchall()
            cursor.nextset()
        return found[0][0] if found else None

    def delete(self, message_id: int) -> None:
        self.run("CALL main_schema.delete_message_from_queue(%s)", message_id)

    def begin_to_read(self, queue: str) -> list[tuple[Any, ...]]:
        """What the procedure has done when its locking read is through."""
        self.run("SET @queue_name = %s", queue)
        self.run("SET @_now = NOW(6)")
        return self.ask(READ)


@contextmanager
def installed() -> Iterator[Schema]:
    name = f"main_schema_{secrets.token_hex(4)}"
    run(f"CREATE DATABASE {name}")
    schema = Schema(name)
    try:
        for statement in (CREATE, PUT, GET, DELETE):
            schema.run(statement)
        yield schema
    finally:
        run(f"DROP DATABASE {name}")
