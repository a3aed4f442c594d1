"""``python -m django_dbqueue.testing.torture.sender_process ERRAND``: sends in transactions until it is stopped."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django.db import Error, connections, transaction

from django_dbqueue.statuses import DONE
from django_dbqueue.testing.torture.errand import Errand, begin

if TYPE_CHECKING:
    from django_dbqueue.testing.torture.event_log import History
    from django_dbqueue.testing.torture.scratch import Scratch

BACKLOG: Final = 400
"""Messages that wait at most before senders pause: a run is to end when its time is over."""


class Sender:
    """One sender; the seed decides what it sends, and what it rolls back."""

    def __init__(self, errand: Errand, scratch: Scratch, history: History) -> None:
        self._errand = errand
        self._scratch = scratch
        self._history = history
        self._dice = random.Random(errand.seed)
        self._number = 0
        self._has_to_stop = False
        signal.signal(signal.SIGTERM, self._stop)

    def run(self) -> None:
        """Send until told to stop."""
        while not self._has_to_stop:
            self._transact([self._message() for _ in range(self._dice.randint(1, 4))])
            time.sleep(self._dice.uniform(0.0, 0.06))
            if self._dice.random() < 0.05:
                self._let_workers_catch_up()

    def _stop(self, *_: object) -> None:
        self._has_to_stop = True

    def _message(self) -> dict[str, Any]:
        self._number += 1
        in_a_group = self._dice.random() < 0.8
        return {
            "n": f"{self._errand.seed}/{self._number}",
            "queue": self._dice.choice(self._scratch.worked),
            "group": self._dice.choice(self._scratch.groups()) if in_a_group else None,
            "seconds": round(self._dice.uniform(0.0, 0.02), 4),
            "fails": self._dice.choice((1, 1, 2)) if self._errand.fails and self._dice.random() < 0.1 else 0,
        }

    def _transact(self, messages: list[dict[str, Any]]) -> None:
        rolls_back = self._errand.rolls_back and self._dice.random() < 0.15
        numbers = [each["n"] for each in messages]
        self._history.note("sending", numbers=numbers)
        may_have_committed = False
        try:
            with transaction.atomic(using=self._errand.alias):
                for each in messages:
                    self._enqueue(each)
                    time.sleep(self._dice.uniform(0.0, 0.008))
                if rolls_back:
                    transaction.set_rollback(True, using=self._errand.alias)
                may_have_committed = not rolls_back
        except Error:  # a session that was ended, or a lock that was not to be had
            connections[self._errand.alias].close()
            if not may_have_committed:
                self._history.note("rolled back", numbers=numbers)
            return
        self._history.note("rolled back" if rolls_back else "sent", numbers=numbers)

    def _enqueue(self, order: dict[str, Any]) -> None:
        from django_dbqueue.models import Message

        payload = {name: order[name] for name in ("n", "seconds", "fails")}
        Message.objects.using(self._errand.alias).enqueue(payload, queue=order["queue"], group=order["group"])

    def _let_workers_catch_up(self) -> None:
        from django_dbqueue.models import Message

        rows = Message.objects.using(self._errand.alias).filter(queue__in=self._scratch.worked).exclude(status=DONE)
        try:
            while not self._has_to_stop and len(rows.values_list("pk")[:BACKLOG]) == BACKLOG:
                time.sleep(0.3)
        except Error:
            connections[self._errand.alias].close()


def main() -> None:
    """Send until stopped."""
    errand = begin()
    from django_dbqueue.testing.torture.event_log import History
    from django_dbqueue.testing.torture.scratch import Scratch

    Sender(errand, Scratch(errand.scratch), History(Path(errand.history))).run()


if __name__ == "__main__":
    main()
