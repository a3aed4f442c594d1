"""Many sessions at one queue: every message goes to one of them, and senders come through."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate

import pytest

from django_dbqueue.models import Group, Message, Ticket
from tests import factories
from tests.patience import patience
from tests.process.conftest import WorkerProcess, wait_until
from tests.process.conftest import start_worker as start_worker  # a fixture
from tests.routines.client import Client

QUEUE = "test"
PAYLOAD = '{"do": "ok"}'
PUT = 150
"""By each sender."""


class Program:
    """A client in a process of its own."""

    def __init__(self, environment: dict[str, str], *arguments: str) -> None:
        self.what = arguments[0]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.routines.client", *arguments],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def finish(self) -> list[tuple[int, ...]]:
        """Tell it that nothing more comes; return the numbers of each line that it printed."""
        output, errors = self.process.communicate("no more\n", timeout=patience(120))
        assert self.process.returncode == 0, errors
        if self.what == "put":
            assert errors == "retried 0\n", "a sender ran into a deadlock"
        return [tuple(map(int, line.split())) for line in output.splitlines()]


@pytest.fixture
def start_program(client: Client, worker_env: dict[str, str]) -> Iterator[Callable[..., Program]]:
    programs: list[Program] = []

    def start(*arguments: str) -> Program:
        programs.append(Program(worker_env, *arguments))
        return programs[-1]

    yield start
    for program in programs:
        program.process.kill()
        with program.process:  # waits, and closes the pipes
            pass


def finish_all(programs: list[Program]) -> list[tuple[int, ...]]:
    return [line for program in programs for line in program.finish()]


@pytest.mark.parametrize("way", ["drain", "drain-by-token"])
def test_eight_clients_get_each_message_once_while_three_others_send(
    start_program: Callable[..., Program], way: str
) -> None:
    takers = [start_program(way, QUEUE) for _ in range(8)]
    senders = [start_program("put", QUEUE, str(PUT), PAYLOAD) for _ in range(3)]
    sent = [message_id for (message_id,) in finish_all(senders)]
    received = finish_all(takers)
    assert sorted(message_id for message_id, _ in received) == sorted(sent)
    assert {reads for _, reads in received} == {1}
    assert len(sent) == 3 * PUT == Message.objects.done(QUEUE).count()


def test_with_no_time_of_invisibility_each_message_comes_as_often_as_its_limit_allows(
    start_program: Callable[..., Program], client: Client
) -> None:
    ids = [client.put(QUEUE, PAYLOAD, 3, 0) for _ in range(40)]
    readers = [start_program("read", QUEUE) for _ in range(8)]
    received = finish_all(readers)
    assert Counter(message_id for message_id, _ in received) == dict.fromkeys(ids, 3)
    assert set(Counter(received).values()) == {1}, "each of the three reads has its number"
    assert Message.objects.dead(QUEUE).count() == len(ids)


def test_what_a_killed_client_held_comes_again_when_its_time_has_ended_and_not_before(
    start_program: Callable[..., Program], client: Client
) -> None:
    ids = [client.put(QUEUE, PAYLOAD, 5, None) for _ in range(6)]
    holder = start_program("hold", QUEUE, "4")
    assert holder.process.stdout is not None
    assert [int(holder.process.stdout.readline().split()[0]) for _ in range(4)] == ids[:4]
    holder.process.kill()
    holder.process.wait()
    assert [row["id"] for row in client.claim(QUEUE, 10, 600)] == ids[4:]
    for message_id in ids[:4]:
        factories.let_pass(Message.objects.get(pk=message_id), 601)
    again = client.claim(QUEUE, 10, 600)
    assert [(row["id"], row["read_count"]) for row in again] == [(message_id, 2) for message_id in ids[:4]]
    assert all(client.ack(row["id"], row["token"]) for row in again)
    assert set(Message.objects.values_list("status", flat=True)) == {"y", "run"}


def test_a_python_worker_and_sql_clients_share_a_queue_and_nothing_is_lost_or_doubled(
    start_program: Callable[..., Program], start_worker: Callable[..., WorkerProcess]
) -> None:
    worker = start_worker("--queues", QUEUE, "--processes", "2", "--threads", "2", "--batch", "10")
    first = Message.objects.enqueue({"do": "ok"}, queue=QUEUE).pk
    worker.wait_for("end", first)
    takers = [start_program(way, QUEUE) for way in ("drain", "drain", "drain-by-token", "drain-by-token")]
    senders = [start_program("put", QUEUE, str(PUT), PAYLOAD) for _ in range(2)]
    by_python = [first]
    while any(sender.process.poll() is None for sender in senders) or len(by_python) < PUT:
        by_python.append(Message.objects.enqueue({"do": "ok"}, queue=QUEUE).pk)
    sent = [message_id for (message_id,) in finish_all(senders)] + by_python
    by_sql = finish_all(takers)
    wait_until(lambda: Message.objects.done(QUEUE).count() == len(sent), "all are done")
    by_worker = [note["id"] for note in worker.notes("end")]
    assert Counter([message_id for message_id, _ in by_sql] + by_worker) == dict.fromkeys(sent, 1)
    assert by_sql, "the clients had their share"
    assert by_worker, "and so had the worker"
    assert not Message.objects.filter(read_count__gt=1).exists()


@pytest.mark.parametrize("limit", [1, 3])
def test_each_group_runs_in_order_and_within_its_limit_however_many_send_and_take(
    start_program: Callable[..., Program], client: Client, limit: int
) -> None:
    for group in range(4):
        Group.objects.limit(QUEUE, f"g{group}", limit)
    takers = [start_program("drain-groups", QUEUE) for _ in range(6)]
    senders = [start_program("put-in-groups", QUEUE, "60", "4") for _ in range(3)]
    sent = [sender.finish() for sender in senders]
    received = finish_all(takers)
    ids = [message_id for lines in sent for message_id, _ in lines]
    assert sorted(message_id for message_id, _ in received) == sorted(ids)
    assert {reads for _, reads in received} == {1}
    ran = {m.pk: (m.claimed_at, m.finished_at) for m in Message.objects.done(QUEUE)}
    assert ran.keys() == set(ids)
    assert list(Ticket.objects.values_list("ticket", "message_id")) == []
    for group in range(4):
        theirs = [message_id for lines in sent for message_id, of in lines if of == group]
        moments = sorted([(ran[one][0], 1) for one in theirs] + [(ran[one][1], -1) for one in theirs])
        assert max(accumulate(step for _, step in moments)) == limit
        for lines in sent if limit == 1 else ():
            began = [ran[message_id][0] for message_id, of in lines if of == group]
            assert began == sorted(began)
