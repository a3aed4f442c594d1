"""What the routines read, by the server's own counters: the message, and not what else is in the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from django_dbqueue import Envelope
from django_dbqueue.keys import lane_of
from django_dbqueue.models import Group, Line, Message, Ticket
from tests.plans import crowd
from tests.routines.client import Client

CROWD = {"done": 3_000, "delayed": 3_000, "stuck": 500, "dead": 500, "backlog": 3_000, "queues": 500}
MOST = 20 if connection.vendor == "mysql" else 6
"""What a get may read: its settings and priorities, the entry, the row twice, and what is made of it."""
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
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) AS fetched FROM pg_stat_xact_user_tables "
        "WHERE relname = ANY(%s)",
        [model._meta.db_table for model in (Message, Line, Ticket, Group)],
    )
    return int(row["fetched"])


def _plan_of_a_get(client: Client) -> str:
    """What PostgreSQL's planner made of it."""
    if client.is_mysql:
        return ""
    notices: list[str] = []
    client.session.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    client.run("LOAD 'auto_explain'")
    for setting in ("log_min_duration = 0", "log_analyze = on", "log_nested_statements = on"):
        client.run(f"SET auto_explain.{setting}")
    client.run("SET client_min_messages = log")
    client.put(QUEUE, "x", 5, 600)
    client.get(QUEUE)
    return "\n".join(notices)


def costs(client: Client) -> dict[str, int]:
    """What each verb reads, over a queue of twenty.

    The least of some rounds: PostgreSQL may settle for another plan at a sixth call, and on MySQL and MariaDB a session
    reads routines anew, and that counts, after anybody on the server has made one.
    """
    rounds = [_round(client) for _ in range(12)][6:]
    return {verb: min(each[verb] for each in rounds) for verb in rounds[0]}


def _round(client: Client) -> dict[str, int]:
    ids = [client.put(QUEUE, "x", 5, 600) for _ in range(20)]
    held = [(row["id"], row["token"]) for row in client.claim(QUEUE, 5)]
    found = {
        "put": reads(client, lambda: client.put(QUEUE, "x", 5, 600)),
        "get": reads(client, lambda: client.get(QUEUE)),
        "claim": reads(client, lambda: client.claim(QUEUE, 5)),
        "ack": reads(client, lambda: client.ack(*held[0])),
        "nack": reads(client, lambda: client.nack(*held[1])),
        "extend": reads(client, lambda: client.extend(*held[2], 60)),
        "delete": reads(client, lambda: client.delete(ids[3])),
        "view": reads(client, lambda: client.run("SELECT * FROM main_queue WHERE id = %s", ids[4])),
    }
    Message.objects.filter(queue=QUEUE).delete()
    return found | {
        "get of nothing": reads(client, lambda: client.get(QUEUE)),
        "get of an unknown queue": reads(client, lambda: client.get("unknown")),
    }


@pytest.fixture
def left_alone(client: Client) -> Iterator[None]:
    """Let PostgreSQL count the table while it is small, and not again."""
    if client.is_mysql:
        yield
        return
    client.run(f"ALTER TABLE {Message._meta.db_table} SET (autovacuum_enabled = false)")
    client.put(QUEUE, "x", 5, 600)
    crowd.gather_statistics()
    Message.objects.all().delete()
    yield
    client.run(f"ALTER TABLE {Message._meta.db_table} RESET (autovacuum_enabled)")


@pytest.mark.usefixtures("left_alone")
@pytest.mark.parametrize("statistics", ["stale", "fresh"])
def test_no_verb_reads_more_because_of_ten_thousand_other_rows(client: Client, statistics: str) -> None:
    alone = costs(client)
    crowd.fill(**CROWD)
    if statistics == "fresh":
        crowd.gather_statistics()
    assert Message.objects.count() > 10_000
    crowded = costs(client)
    dear = {verb: cost for verb, cost in crowded.items() if cost > max(alone[verb], 1) + 4}
    dear.pop("view", None)  # whose plan is the client's affair: there is no routine about it
    assert dear == {}, _plan_of_a_get(client)
    assert max(crowded["ack"], crowded["delete"]) == 1
    assert crowded["nack"] <= 3  # it is recorded first, with its worker
    assert crowded["get"] <= MOST


@pytest.mark.usefixtures("left_alone")
@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="the others are told which index")
def test_a_get_reads_its_message_alone_however_few_the_server_believes_there_are(client: Client) -> None:
    crowd.fill(**(CROWD | {"backlog": 10_000}))
    crowd.gather_statistics()
    crowd.thin_out_statistics()
    assert reads(client, lambda: client.get(crowd.BACKLOG)) <= MOST, _plan_of_a_get(client)


def costs_of_groups(client: Client) -> dict[str, int]:
    """What the verbs read in a group, as ``costs``."""
    rounds = [_round_of_groups(client) for _ in range(12)][6:]
    return {verb: min(each[verb] for each in rounds) for verb in rounds[0]}


def _round_of_groups(client: Client) -> dict[str, int]:
    ids = [client.put_in_group(QUEUE, "a", "x", 5, 600) for _ in range(9)]
    found = {"kick": reads(client, lambda: client.kick(QUEUE, "a"))}
    found["kick of a busy one"] = reads(client, lambda: client.kick(QUEUE, "a"))
    found["put"] = reads(client, lambda: client.put_in_group(QUEUE, "a", "x", 5, 600))
    for verb in ("nack", "ack"):
        [held] = client.claim(QUEUE, 1)
        fence = (held["id"], held["token"])
        found[verb] = reads(client, lambda verb=verb, fence=fence: getattr(client, verb)(*fence))
    found["delete of a waiting one"] = reads(client, lambda: client.delete(ids[5]))
    found["delete of the first"] = reads(client, lambda: client.delete(ids[1]))
    for model in (Message, Line, Ticket):
        lane = lane_of(QUEUE, "a")
        model.objects.filter(lane=lane).delete()
    return found


@pytest.mark.usefixtures("left_alone")
@pytest.mark.parametrize("statistics", ["stale", "fresh"])
def test_no_verb_reads_more_because_of_thousands_who_wait(client: Client, statistics: str) -> None:
    alone = costs_of_groups(client)
    crowd.fill(**CROWD)
    sent = [Envelope(n, group=f"g{n}") for n in range(2_000)] + [Envelope(n, group="long") for n in range(3_000)]
    Message.objects.enqueue_many(sent, queue=QUEUE)
    Message.objects.enqueue_many([Envelope(n, group="a", priority=-9) for n in range(3_000)], queue="other")
    Message.objects.filter(queue=QUEUE, group_name__isnull=False).update(priority=-9)
    if statistics == "fresh":
        crowd.gather_statistics(Message, Line, Ticket, Group)
    crowded = costs_of_groups(client)
    assert {verb: cost for verb, cost in crowded.items() if cost > alone[verb] + 6} == {}, (alone, crowded)
    assert max(crowded.values()) <= (60 if client.is_mysql else 25), crowded


def test_a_long_line_behind_it_makes_an_ack_no_dearer(client: Client) -> None:
    def cost_of_an_ack() -> int:
        [held] = client.claim(QUEUE, 1)
        return reads(client, lambda: client.ack(held["id"], held["token"]))

    Message.objects.enqueue_many([Envelope(n, group="a") for n in range(20)], queue=QUEUE)
    before = min(cost_of_an_ack() for _ in range(9))
    Message.objects.enqueue_many([Envelope(n, group="a") for n in range(5_000)], queue=QUEUE)
    assert min(cost_of_an_ack() for _ in range(9)) <= before + 2
