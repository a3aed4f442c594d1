"""How many rows of a table all sessions together have read, as the server counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.models import Model

from tests.spark.conftest import wait_until_alone

_OF_MYSQL = (
    "SELECT count_read FROM performance_schema.table_io_waits_summary_by_table "
    "WHERE object_schema = DATABASE() AND object_name = %s"
)
_OF_MARIADB = (
    "SELECT rows_read FROM information_schema.table_statistics WHERE table_schema = DATABASE() AND table_name = %s"
)
_OF_POSTGRESQL = (
    "SELECT COALESCE(seq_tup_read, 0) + COALESCE(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = %s"
)


@contextmanager
def counted(model: type[Model]) -> Iterator[Callable[[], int]]:
    """Give a function that returns how many rows of the model's table have been read since the beginning."""
    with _counting(), connection.cursor() as cursor:
        sql = {"postgresql": _OF_POSTGRESQL}.get(connection.vendor) or (
            _OF_MARIADB if connection.mysql_is_mariadb else _OF_MYSQL
        )

        def total() -> int:
            wait_until_alone()  # a session of PostgreSQL tells its counts as it ends
            cursor.execute(sql, (model._meta.db_table,))
            found = cursor.fetchone()
            return 0 if found is None else int(found[0])

        before = total()
        yield lambda: total() - before


@contextmanager
def _counting() -> Iterator[None]:
    """MariaDB counts only while it is told to."""
    if connection.vendor != "mysql" or not connection.mysql_is_mariadb:
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SET GLOBAL userstat = 1")
        try:
            yield
        finally:
            cursor.execute("SET GLOBAL userstat = 0")
