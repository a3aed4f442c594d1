"""What the routines read, by the server's own counters: the message, and not what else is in the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import connection

from django_dbqueue.models import Message
from tests.plans import crowd

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.routines.client import Client

CROWD = {"done": 3_000, "delayed": 3_000, "stuck": 500, "dead": 500, "backlog": 3_000, "queues": 500}
QUEUE = "asked"
"""A queue of its own beside the crowd's, whose stuck messages a claim that comes back short would have to rescue."""


def reads(client: Client, work: Callable[[], object]) -> int:
    """Entries and rows that the session reads for some work."""
    count = _handler_reads if client.is_mysql else _rows_fetched
    client.run("BEGIN")
    before, after_asking = count(client), count(client)
    work()
    cost = (count(client) - after_asking) - (after_asking - before)  # asking reads something, too
    client.run("COMMIT")
    return cost


def _handler_reads(client: Client) -> int:
    return sum(int(row["Value"]) for row in client.run("SHOW SESSION STATUS LIKE 'Handler_read%%'"))


def _rows_fetched(client: Client) -> int:
    [row] = client.run(
        "SELECT seq_tup_read + idx_tup_fetch AS fetched FROM pg_stat_xact_user_tables WHERE relname = %s",
        Message._meta.db_table,
    )
    return int(row["fetched"])


def costs(client: Client) -> dict[str, int]:
    """What each verb reads, over a queue of twenty."""
    found = {}
    for _ in range(8):  # PostgreSQL makes its last plan at the sixth call
        ids = [client.put(QUEUE, "x", 5, 600) for _ in range(20)]
        found["put"] = reads(client, lambda: client.put(QUEUE, "x", 5, 600))
        found["get"] = reads(client, lambda: client.get(QUEUE))
        found["delete"] = reads(client, lambda: client.delete(ids[0]))  # noqa: B023
        held = client.claim(QUEUE, 5)
        (first, second, third), *_ = [[(row["id"], row["token"]) for row in held[:3]]]
        found["ack"] = reads(client, lambda: client.ack(*first))  # noqa: B023
        found["nack"] = reads(client, lambda: client.nack(*second))  # noqa: B023
        found["extend"] = reads(client, lambda: client.extend(*third, 60))  # noqa: B023
        found["claim"] = reads(client, lambda: client.claim(QUEUE, 5))
        Message.objects.filter(queue=QUEUE).delete()
        found["get of nothing"] = reads(client, lambda: client.get(QUEUE))
        found["get of an unknown queue"] = reads(client, lambda: client.get("unknown"))
    return found


@pytest.mark.parametrize("statistics", ["stale", "fresh"])
def test_no_verb_reads_more_because_of_ten_thousand_other_rows(client: Client, statistics: str) -> None:
    alone = costs(client)
    crowd.fill(**CROWD)
    if statistics == "fresh":
        crowd.gather_statistics()
    assert Message.objects.count() > 10_000
    crowded = costs(client)
    print(alone, crowded)
    assert {verb: cost for verb, cost in crowded.items() if cost > max(alone[verb], 1) + 4} == {}
    assert max(cost for verb, cost in crowded.items() if verb != "claim") <= MOST


MOST = 20 if connection.vendor == "mysql" else 6
