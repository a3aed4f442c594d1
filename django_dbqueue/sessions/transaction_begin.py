"""How a transaction of Django's begins: in other words than its own, and with the first statement if the driver can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.databases import SERVERS
from django_dbqueue.databases.statement import Params

Execute = Callable[..., object]
Context = dict[str, Any]
"""What Django gives an execute wrapper, besides the statement."""


def takes_many(connection: Any) -> bool:
    """Return whether the driver sends several statements in one round trip, and returns the result of each.

    mysqlclient does unless it is forbidden, and psycopg where it sends whole texts.
    """
    if SERVERS[connection.vendor].driver.many_by != connection.Database.__name__:
        return False
    is_forbidden = not connection.settings_dict["OPTIONS"].get("multi_statements", True)
    return not (is_forbidden or getattr(connection.features, "uses_server_side_binding", False))


@contextmanager
def begun_by_the_first(connection: BaseDatabaseWrapper, begin: str) -> Iterator[None]:
    """Make the first statement in atomic() send BEGIN before it."""

    def with_begin(execute: Execute, sql: str, params: Params, many: bool, context: Context) -> object:
        if with_begin not in connection.execute_wrappers:  # a project's own wrapper has sent something before
            return execute(sql, params, many, context)
        connection.execute_wrappers.remove(with_begin)
        result = execute(f"{begin}; {sql}", params, many, context)
        context["cursor"].nextset()
        return result

    with begun_by(connection, lambda: connection.execute_wrappers.append(with_begin)):
        try:
            yield
        finally:
            if with_begin in connection.execute_wrappers:  # there was nothing to send
                connection.execute_wrappers.remove(with_begin)


@contextmanager
def begun_by(connection: Any, begin: Callable[[], object]) -> Iterator[None]:
    """Make atomic() begin differently from Django, which switches autocommit off and on: a round trip on MySQL.

    Only this once: hooks on the commit, which run before the block is left, may begin transactions too.
    """
    own = vars(connection)

    def begin_once() -> None:
        del own["_start_transaction_under_autocommit"]
        begin()

    own["_start_transaction_under_autocommit"] = begin_once
    try:
        yield
    finally:
        own.pop("_start_transaction_under_autocommit", None)
