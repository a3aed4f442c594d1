"""Messages of groups that a job writes: into their lines in its transaction, and a kick of their groups after it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from django_dbqueue.lanes import lanes_sql
from django_dbqueue.lanes.kick import kick
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.lasting import Lasting
from django_dbqueue.statements import enqueue_sql, scan_sql

WIDTH: Final = 1
"""Tickets that a kick gives out, unless the group has a limit of its own: only workers know their queue's."""

logger = logging.getLogger("django_dbqueue.spark")


def into_lines(connection: Connection, write: Callable[[], int]) -> int:
    """Write messages in the open transaction, and put those of groups into their lines; return how many there are."""
    server = connection.server
    [(_lowest, highest)] = connection.fetch(scan_sql.ends(server.message))
    count = write()
    connection.run(lanes_sql.enter_after(server, highest or 0))
    return count


def kick_groups(session: Lasting, lanes: Mapping[int, str], *, notify: bool) -> None:
    """Let groups continue, given as lanes with their queues, that a committed transaction has sent to."""

    def work(connection: Connection) -> None:
        queues = {lanes[lane] for lane in kick(connection, lanes, lambda _: WIDTH)}
        if notify and connection.server.notifies:
            for queue in queues:
                connection.fetch(enqueue_sql.notify(queue))

    try:
        session.ask(work)
    except Exception:
        logger.warning(
            "%s groups could not be looked after once their messages were committed; a worker does that soon.",
            f"{len(lanes):,}", exc_info=True,
        )  # fmt: skip
