"""Many processes at one hot queue: no loss, no double, no error (P3, P4, P6)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from contextlib import ExitStack

import pytest

from django_dbqueue import Envelope
from django_dbqueue.models import Message
from tests.factories import QUEUE
from tests.patience import patience

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT_SECONDS = patience(200)


def test_four_processes_drain_one_queue_and_ack_each_message_exactly_once(worker_env: dict[str, str]) -> None:
    _drain_and_ack_exactly_once(worker_env, processes=4, messages=4_000)


@pytest.mark.slow
def test_eight_processes_drain_one_queue_and_ack_each_message_exactly_once(worker_env: dict[str, str]) -> None:
    _drain_and_ack_exactly_once(worker_env, processes=8, messages=20_000)


def _drain_and_ack_exactly_once(worker_env: dict[str, str], *, processes: int, messages: int) -> None:
    envelopes = (Envelope(number, key=str(number), priority=number % 3) for number in range(messages))
    assert Message.objects.enqueue_many(envelopes, queue=QUEUE).created == messages
    sent = set(Message.objects.values_list("pk", flat=True))

    acked = drain(worker_env, processes)

    each = Counter(int(line) for output in acked for line in output.split())
    assert set(each) == sent
    assert set(each.values()) == {1}
    assert all(acked), "each had begun before anyone went on"
    assert Message.objects.done(QUEUE).filter(read_count=1, crashes=0).count() == messages
    assert Message.objects.exclude(status="y").count() == 0


def drain(environment: dict[str, str], count: int) -> list[str]:
    """What each process says that it acked; they claim together, and once each has some, they go on together."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.concurrency.claimer", QUEUE],
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(count)
        ]
        stack.callback(lambda: [process.kill() for process in processes])
        for expected in ("ready\n", "begun\n"):
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == expected, process.communicate()[1]
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
        answers = [process.communicate(timeout=LIMIT_SECONDS) for process in processes]
        assert [error for _, error in answers if error] == []
        assert {process.returncode for process in processes} == {0}
        return [output for output, _ in answers]
