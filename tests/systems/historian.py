"""One of many who fill the history at once: ``python -m tests.systems.historian ROLE``.

It says "ready" and waits for a line. A ``producer`` sends, claims and settles its share and ends; an ``archiver``, a
``maintainer`` (as a worker's maintenance, which doesn't wait) and a ``purger`` go on until standard input is closed.
"""

from __future__ import annotations

import random
import select
import sys
from collections.abc import Callable

import django

from django_dbqueue.sessions.django_session import DjangoSession

SHARE = 700
QUEUE = "history"
BATCH = 7


def _produce() -> None:
    from django_dbqueue.models import Message

    left = SHARE
    while left:
        batch = min(left, random.randint(1, 25))
        Message.objects.enqueue_many(range(batch), queue=QUEUE)
        left -= batch
        messages = Message.objects.claim(batch, queue=QUEUE, lease=600)
        unwanted = [message for message in messages if message.pk % 5 == 0]
        assert Message.objects.reject(unwanted) == []
        assert Message.objects.ack([message for message in messages if message not in unwanted]) == []
    while messages := Message.objects.claim(100, queue=QUEUE, lease=600):
        assert Message.objects.ack(messages) == []


def _archive() -> None:
    from django_dbqueue.models import Message

    Message.objects.archive(older_than=0)


def _maintain() -> None:
    from django_dbqueue.lifecycle.archive import DeadWalk, DoneWalk

    DoneWalk(DjangoSession("default"), QUEUE).archive(age=0, wait=False)
    DeadWalk(DjangoSession("default"), QUEUE).archive(age=0, wait=False)


def _purge() -> None:
    from django_dbqueue.models import Message

    some = list(Message.objects.filter(status="y").order_by("-pk").values_list("pk", flat=True)[:BATCH])
    Message.objects.filter(pk__in=some).purge()


ROLES: dict[str, Callable[[], None]] = {"archiver": _archive, "maintainer": _maintain, "purger": _purge}


def main(role: str) -> None:
    django.setup()
    from django_dbqueue.lifecycle import archive
    from django_dbqueue.models import Message

    archive.BATCH = BATCH  # many small transactions, so that many meet
    Message.objects.filter(pk=0).exists()
    print("ready", flush=True)
    sys.stdin.readline()
    if role == "producer":
        _produce()
        return
    while not select.select([sys.stdin], [], [], 0)[0]:
        ROLES[role]()


if __name__ == "__main__":
    main(sys.argv[1])
