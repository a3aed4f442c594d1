"""One of many processes at a hot queue: ``python -m tests.concurrency.claimer QUEUE``.

It says "ready", waits for a line, claims its first messages and says "begun", waits for another line, claims and acks
until nothing is left, and prints the id of each message whose ack it was told had worked.
"""

from __future__ import annotations

import sys

import django

BATCH = 40


def main(queue: str) -> None:
    django.setup()
    from django_dbqueue.models import Message

    def claim() -> list[Message]:
        return Message.objects.claim(BATCH, queue=queue, lease=600)

    Message.objects.filter(pk=0).exists()
    print("ready", flush=True)
    sys.stdin.readline()
    while not (messages := claim()):
        pass
    print("begun", flush=True)
    sys.stdin.readline()
    while messages or Message.objects.ready(queue).exists():
        if messages:
            first, *rest = messages
            first.ack()
            assert Message.objects.ack(rest) == []
            sys.stdout.write("".join(f"{message.pk}\n" for message in messages))
        messages = claim()


if __name__ == "__main__":
    main(sys.argv[1])
