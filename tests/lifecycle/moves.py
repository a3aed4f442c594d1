"""Each move that is not ordinary, with the event that it leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_dbqueue.lifecycle.rescue import LEASE_EXPIRED
from django_dbqueue.models import Message
from django_dbqueue.operations.mover import move
from django_dbqueue.operations.seen import Seen
from django_dbqueue.operations.verbs import VERBS, Order
from django_dbqueue.sessions.django_session import DjangoSession
from tests.factories import QUEUE, dead, held, stuck, waiting


def spent(**options: Any) -> Message:
    return held(max_reads=1, **options)


def rescue(message: Message) -> None:
    assert Message.objects.rescue(message.queue) == 1


def one(message: Message) -> Any:
    return Message.objects.filter(pk=message.pk)


MOVES: dict[str, tuple[Callable[..., Message], Callable[[Message], Any], tuple[Any, ...]]] = {
    "a failure": (held, lambda m: m.nack(delay=5, error=ValueError("no")), ("failed", None, "ValueError: no")),
    "a failure without a word": (held, lambda m: m.nack(), ("failed", None, None)),
    "the last failure": (spent, lambda m: m.nack(error="no"), ("died", None, "no")),
    "a rejection": (held, lambda m: m.reject("no such user"), ("rejected", None, "no such user")),
    "a rescue": (stuck, rescue, ("rescued", None, LEASE_EXPIRED)),
    "the last rescue": (lambda: stuck(max_reads=1), rescue, ("died", None, LEASE_EXPIRED)),
    "a requeue": (dead, lambda m: one(m).requeue(by="ann"), ("requeued", "ann", None)),
    "a requeue by a program": (dead, lambda m: one(m).requeue(), ("requeued", None, None)),
    "an operator's rejection": (waiting, lambda m: one(m).reject_waiting("no", by="ann"), ("rejected", "ann", "no")),
    "a drop": (waiting, lambda m: one(m).drop_all("old", by="ann"), ("dropped", "ann", "old")),
    "a drop by its key": (
        lambda: waiting(key="k"),
        lambda _: Message.objects.drop(QUEUE, "k"),
        ("dropped", None, "dropped by its key"),
    ),
    "an operator's release": (
        held,
        lambda m: move(Message, DjangoSession("default"), Order(VERBS["release"], "ann"), [Seen.of(m)]),
        ("released", "ann", None),
    ),
}
