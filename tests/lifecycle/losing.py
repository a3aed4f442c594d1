"""Every verb of a holder, and every way to lose a claim."""

from __future__ import annotations

from collections.abc import Callable

from django_dbqueue.models import Message
from tests.factories import QUEUE, claim_one, let_pass, waiting

VERBS: dict[str, tuple[Callable[[Message], None], Callable[[list[Message]], list[Message]]]] = {
    "ack": (lambda m: m.ack(), lambda ms: Message.objects.ack(ms)),
    "nack": (
        lambda m: m.nack(delay=5, error="late"),
        lambda ms: Message.objects.nack(ms, delay=5, error="late"),
    ),
    "nack at once": (lambda m: m.nack(), lambda ms: Message.objects.nack(ms)),
    "reject": (lambda m: m.reject("late"), lambda ms: Message.objects.reject(ms, "late")),
    "release": (lambda m: m.release(), lambda ms: Message.objects.release(ms)),
    "extend": (lambda m: m.extend(99), lambda ms: Message.objects.extend(ms, 99)),
    "extend by its own": (lambda m: m.extend(), lambda ms: Message.objects.extend(ms)),
}


def rescued(message: Message) -> None:
    let_pass(message, 61)
    assert Message.objects.rescue(QUEUE) == 1


def rescued_and_claimed_again(message: Message) -> None:
    rescued(message)
    assert claim_one() == message


def rescued_to_the_dead(message: Message) -> None:
    Message.objects.filter(pk=message.pk).update(max_reads=1)
    rescued(message)


def updated(message: Message) -> None:
    assert waiting(payload="new", key="k", on_conflict="update").outcome == "updated"


def updated_and_claimed_again(message: Message) -> None:
    updated(message)
    assert claim_one() == message


def requeued(message: Message) -> None:
    assert Message.objects.filter(pk=message.pk).requeue() == 1


def requeued_and_claimed_again(message: Message) -> None:
    requeued(message)
    assert claim_one() == message


def released_and_claimed_again(message: Message) -> None:
    Message.objects.get(pk=message.pk).release()
    assert claim_one() == message


def acked(message: Message) -> None:
    Message.objects.get(pk=message.pk).ack()


def nacked(message: Message) -> None:
    Message.objects.get(pk=message.pk).nack()


def released(message: Message) -> None:
    Message.objects.get(pk=message.pk).release()


def rejected(message: Message) -> None:
    Message.objects.get(pk=message.pk).reject("unwanted")


def dropped(message: Message) -> None:
    assert Message.objects.filter(pk=message.pk).drop_all("by me") == 1


def archived(message: Message) -> None:
    acked(message)
    assert Message.objects.archive(QUEUE, older_than=0) == 1


LOST_BY = [
    rescued,
    rescued_and_claimed_again,
    rescued_to_the_dead,
    updated,
    updated_and_claimed_again,
    requeued,
    requeued_and_claimed_again,
    released_and_claimed_again,
    acked,
    nacked,
    released,
    rejected,
    dropped,
    archived,
]
