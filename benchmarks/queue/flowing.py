"""A flow of many children and one after all of them, beside as many messages without a flow: insert, and acks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.queue.bench import QUEUE
from benchmarks.race import Contest, Contestant, Target
from django_dbqueue import flow
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Edge, Message
from django_dbqueue.sessions.django_session import session_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.queue.bench import Bench

CHILDREN: Final = 10_000
AT_ONCE: Final = 500
LEASE: Final = 3_600.0
PLAIN: Final = "enqueue_many"
FLOW: Final = "a flow, and one after all"
PLAIN_ACKS: Final = "acks without a flow"
FLOW_ACKS: Final = "acks of children, and the one after all"


def flowing(bench: Bench) -> list[Contest]:
    """What edges cost when they are written, and when those before them end."""
    return [_inserts(bench), _acks(bench)]


def _send_plain() -> None:
    Message.objects.enqueue_many(list(range(CHILDREN)), queue=QUEUE)


def _send_flow() -> None:
    with flow("a fan") as f:
        parts = f.enqueue_many(list(range(CHILDREN)), queue=QUEUE)
        f.enqueue("last", queue="after-all", after=parts)


def _inserts(bench: Bench) -> Contest:
    def checked(edges: int) -> Callable[[], None]:
        return lambda: bench.expect(Edge.objects.count(), edges, "edges and gates")

    contestants = [
        Contestant(PLAIN, CHILDREN, _send_plain, bench.empty, checked(0)),
        Contestant(FLOW, CHILDREN, _send_flow, bench.empty, checked(CHILDREN + 1)),
    ]
    return Contest("flows, insert", contestants, [Target(FLOW, PLAIN, at_least=0.5)], unit="messages/s")


def _acks(bench: Bench) -> Contest:
    held: list[Message] = []

    def prepare(send: Callable[[], None]) -> Callable[[], None]:
        def ready() -> None:
            bench.empty()
            send()
            held.clear()
            claimer = Claimer(Message, session_of("default"), QUEUE)
            while claimed := claimer.claim(AT_ONCE, lease=LEASE, max_reads=5):
                held.extend(claimed)

        return ready

    def run() -> None:
        for start in range(0, CHILDREN, AT_ONCE):
            bench.expect(len(Message.objects.ack(held[start : start + AT_ONCE])), 0, "acks that were lost")

    def check() -> None:
        bench.expect(Edge.objects.count(), 0, "edges and gates that are left")
        bench.expect(Message.objects.waiting().count(), 0, "messages that wait")

    contestants = [
        Contestant(PLAIN_ACKS, CHILDREN, run, prepare(_send_plain), check),
        Contestant(FLOW_ACKS, CHILDREN, run, prepare(_send_flow), check),
    ]
    return Contest("flows, acks", contestants, [Target(FLOW_ACKS, PLAIN_ACKS, at_least=0.7)], unit="acks/s")
