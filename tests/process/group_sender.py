"""A program that sends to groups, in transactions that may roll back, and may die between a commit and its kick."""

from __future__ import annotations

import os
import random
import sys
import time

import django
from django.db import DatabaseError, transaction


def main(number: int, seconds: float, groups: int, dies: float) -> None:
    """Send for as long, from when it is ready."""
    from django_dbqueue import Envelope
    from django_dbqueue.lanes.lane_moves import Kick
    from django_dbqueue.models import Message

    dice = random.Random(number)
    kick = Kick.__call__

    def kick_or_die(self: Kick) -> None:
        if dice.random() < dies:
            print(f"dies {sequence}", flush=True)
            os._exit(9)
        kick(self)

    Kick.__call__ = kick_or_die  # type: ignore[method-assign]
    until, sequence = time.monotonic() + seconds, number * 1_000_000
    while time.monotonic() < until:
        sent, queue = [], dice.choice(["groups", "groups-in-a-transaction"])
        try:
            with transaction.atomic():
                for _ in range(dice.randint(1, 4)):
                    sequence += 1
                    payload = {
                        "sequence": sequence,
                        "sender": number,
                        "do": dice.choice(["ok"] * 8 + ["retry", "reject"]),
                    }
                    sent.append(Envelope(payload, group=f"g{dice.randrange(groups)}"))
                    if dice.random() < 0.5:
                        Message.objects.enqueue(payload, queue=queue, group=sent.pop().group)
                        time.sleep(dice.uniform(0, 0.005))
                if sent:
                    Message.objects.enqueue_many(sent, queue=queue)
                transaction.set_rollback(dice.random() < 0.15)
        except DatabaseError as error:
            print(f"failed: {error}", flush=True)
            transaction.get_connection().close()
        time.sleep(dice.uniform(0, 0.02))


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
