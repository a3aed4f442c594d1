"""Who reads on from the highest id that it has seen misses no message of the history (article 000's archival table)."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from django_dbqueue.models import ArchivedMessage, Message
from tests.systems.historians import MESSAGES, PATIENCE, PRODUCERS, let_go_on, ready

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = 40


class Reader:
    """Remembers nothing but the highest id, and what it was shown."""

    def __init__(self) -> None:
        self.last_seen = 0
        self.messages: list[int] = []
        self.reads = 0

    def read(self) -> int:
        page = ArchivedMessage.objects.filter(id__gt=self.last_seen).order_by("id").values_list("id", "message_id")
        rows = list(page[:PAGE])
        self.messages += [message_id for _, message_id in rows]
        self.last_seen = rows[-1][0] if rows else self.last_seen
        self.reads += bool(rows)
        return len(rows)


@pytest.fixture
def processes(worker_env: dict[str, str]) -> Iterator[list[subprocess.Popen[str]]]:
    with ready(worker_env) as started:
        yield started


def test_a_reader_that_follows_the_ids_misses_none_while_producers_and_archivers_run(
    processes: list[subprocess.Popen[str]],
) -> None:
    reader, deadline = Reader(), time.monotonic() + PATIENCE
    for process in processes:
        let_go_on(process)
    producers, archivers = processes[:PRODUCERS], processes[PRODUCERS:]
    while any(process.poll() is None for process in producers) or Message.objects.exists():
        reader.read()
        assert time.monotonic() < deadline, "the table did not become empty"
    ends = [process.communicate(timeout=PATIENCE) for process in archivers]  # which closes their standard input
    while reader.read():
        pass

    assert [error for _, error in ends if error] == []
    assert [process.returncode for process in processes] == [0] * len(processes)
    assert reader.messages == list(ArchivedMessage.objects.order_by("id").values_list("message_id", flat=True))
    assert len(reader.messages) == len(set(reader.messages)) == MESSAGES
    assert ArchivedMessage.objects.filter(outcome="dead").exists()
    assert reader.reads > MESSAGES / PAGE, "it had read while they wrote"
