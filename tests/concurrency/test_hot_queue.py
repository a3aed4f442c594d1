"""Eight processes at one hot queue: no loss, no double, no error (P3, P4, P6)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from contextlib import ExitStack

import pytest

from django_dbqueue import Envelope
from django_dbqueue.models import Message
from tests.factories import QUEUE

PROCESSES = 8
MESSAGES = 20_000
LIMIT_SECONDS = 200


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_eight_processes_drain_one_queue_and_ack_each_message_exactly_once(worker_env: dict[str, str]) -> None:
    envelopes = (Envelope(number, key=str(number), priority=number % 3) for number in range(MESSAGES))
    assert Message.objects.enqueue_many(envelopes, queue=QUEUE).created == MESSAGES
    sent = set(Message.objects.values_list("pk", flat=True))

    acked = [told for told in drain(worker_env) if told]

    each = Counter(int(line) for told in acked for line in told.split())
    assert set(each) == sent
    assert set(each.values()) == {1}
    assert len(acked) > 1, "one process did all the work"
    assert Message.objects.done(QUEUE).filter(read_count=1, crashes=0).count() == MESSAGES
    assert Message.objects.exclude(status="y").count() == 0


def drain(environment: dict[str, str]) -> list[str]:
    """What each process says that it acked; they begin together."""
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
            for _ in range(PROCESSES)
        ]
        stack.callback(lambda: [process.kill() for process in processes])
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=LIMIT_SECONDS) for process in processes]
        assert [error for _, error in answers if error] == []
        assert {process.returncode for process in processes} == {0}
        return [told for told, _ in answers]
