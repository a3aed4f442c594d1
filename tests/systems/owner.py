"""A consumer as article 003 has them: it claims ten, processes them, says that they are done, and begins anew.

``python -m tests.systems.owner QUEUE LEASE [--exactly-once] [--stop-at STEP]`` ends when nothing is left in the queue.
Processing a message writes a row with its id and this process's. At the step that it is told it says so, and waits for
a line before it goes on; that is where a test kills it.

=============  ==========================================================================
step           where it is then
=============  ==========================================================================
``claimed``    between claim and processing
``processing`` in the middle of the fifth message (with a transaction: its row is written)
``processed``  all ten are processed, and none (with a transaction: all) is acked
=============  ==========================================================================
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import nullcontext

import django

BATCH = 10
FIFTH = 4


def write(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("queue")
    parser.add_argument("lease", type=float)
    parser.add_argument("--exactly-once", action="store_true")
    parser.add_argument("--stop-at", default="")
    options = parser.parse_args()
    django.setup()
    from django_dbqueue.models import Message
    from tests.bank_app.models import Transfer

    def reach(step: str) -> None:
        if step == options.stop_at:
            options.stop_at = ""
            write(step)
            sys.stdin.readline()

    def process(number: int, message: Message) -> None:
        with message.transaction() if options.exactly_once else nullcontext():
            if number == FIFTH and not options.exactly_once:
                reach("processing")
            Transfer.objects.create(number=message.pk, source=os.getpid(), target=message.read_count, amount=0)
            if number == FIFTH and options.exactly_once:
                reach("processing")

    write("ready")
    sys.stdin.readline()
    while Message.objects.filter(queue=options.queue).exclude(status="y").exists():
        messages = Message.objects.claim(BATCH, queue=options.queue, lease=options.lease)
        if not messages:
            time.sleep(0.02)  # somebody else has what is left; who lives takes it over when that one doesn't
            continue
        write(f"claimed {len(messages)}")
        reach("claimed")
        for number, message in enumerate(messages):
            process(number, message)
        reach("processed")
        if not options.exactly_once:
            write(f"lost {len(Message.objects.ack(messages))}")


if __name__ == "__main__":
    main()
