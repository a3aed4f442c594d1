"""django-q2 with the broker in the database: a cluster of one guard, one pusher, one monitor and two workers.

django-q2.readthedocs.io, Configuration: `bulk` takes many tasks at once from the broker; `queue_limit` holds more of
them in memory; `save_limit` -1 keeps no successes, where each would cost an insert and a count; `recycle` starts
workers afresh after so many tasks, which short ones feel; `scheduler` off, as nothing is scheduled. Two workers (its
default is one for each core). `retry` above `timeout`, as it demands. There is no bulk interface.

Under faults: `retry` of 10 seconds, after which it gives a task again that has not been acknowledged, and no `bulk`,
since what waits in memory for that long is run twice.
"""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.utils import timezone

from benchmarks.queue.peers.adapters import django_site
from benchmarks.queue.peers.adapters.adapter import IN_FAULTS, at_once, handled, payload
from benchmarks.queue.peers.adapters.adapter import Adapter as Base

_SOON = {"bulk": 1, "queue_limit": 4, "timeout": 8, "retry": 10, "max_attempts": 0} if IN_FAULTS else {}

django_site.configure(
    "django_q",
    Q_CLUSTER={
        "name": "benchmarks",
        "orm": "default",
        "workers": at_once(2),
        "bulk": 100,
        "queue_limit": 500,
        "save_limit": -1,
        "recycle": 1_000_000,
        "timeout": 60,
        "retry": 120,
        "scheduler": False,
        "log_level": "ERROR",
        **_SOON,
    },
)

from django_q.models import OrmQ  # noqa: E402 -- needs the settings
from django_q.signing import SignedPackage  # noqa: E402
from django_q.tasks import async_task  # noqa: E402


def noop(payload: dict[str, Any]) -> None:
    handled(payload["n"])


class Adapter(Base):
    def set_up(self) -> None:
        django_site.migrate()

    def enqueue_one(self, number: int) -> None:
        async_task(f"{__name__}.noop", payload(number))

    def preload(self, messages: int) -> None:
        """From the parcel of a real task: only its payload is another in each."""
        self.enqueue_one(0)
        first = OrmQ.objects.get()
        task = SignedPackage.loads(first.payload)
        parcels = (SignedPackage.dumps(task | {"args": (payload(number),)}) for number in range(1, messages))
        rows = (OrmQ(key=first.key, payload=each, lock=timezone.now()) for each in parcels)
        OrmQ.objects.bulk_create(rows, batch_size=1000)

    def remaining(self) -> int:
        return int(OrmQ.objects.count())

    def left(self) -> list[int]:
        return [SignedPackage.loads(row.payload)["args"][0]["n"] for row in OrmQ.objects.all()]

    def work(self) -> None:
        call_command("qcluster", verbosity=0)
