"""An archiver or a mover that is killed: ``python -m tests.systems.killed_archiver archive|purge|nack|…``.

It archives or purges all, or moves the first message (`tests.systems.kills`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.systems.kills import Boundaries, serve

BATCH = 3
MOVES: dict[str, Callable[[Any], Any]] = {
    "nack": lambda message: message.nack(error="no"),
    "nack many": lambda message: type(message).objects.nack([message], error="no"),
    "reject": lambda message: message.reject("no"),
    "rescue": lambda message: type(message).objects.rescue(message.queue),
    "requeue": lambda message: type(message).objects.filter(pk=message.pk).requeue(by="ann"),
    "cancel": lambda message: type(message).objects.cancel(message.pk, reason="no", by="ann"),
    "drop": lambda message: type(message).objects.filter(pk=message.pk).drop_all("no", by="ann"),
    "send again": lambda message: type(message).objects.filter(pk=message.pk).send_again(by="ann"),
}


def act(verb: str, boundaries: Boundaries) -> None:
    from django.db import connection

    from django_dbqueue.lifecycle import archive as module
    from django_dbqueue.models import Message

    module.BATCH = BATCH
    message = Message.objects.order_by("id").first()  # before it is watched: a move begins with its own statements
    boundaries.watch(connection)
    if verb == "purge":
        Message.objects.all().purge()
    elif verb == "archive":
        Message.objects.archive(older_than=0)
    else:
        MOVES[verb](message)


if __name__ == "__main__":
    serve(partial(act, sys.argv[1]))
