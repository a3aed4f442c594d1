"""Messages in every state that a test can ask for, made by the package's own verbs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_dbqueue import testing
from django_dbqueue.claims.claim_rows import Claimed
from django_dbqueue.models import Message, Queue
from django_dbqueue.models.fields import DbNow

QUEUE = "tests"


class MessageFactory(testing.MessageFactory):
    """The package's own, for the queue of the tests."""

    queue = QUEUE


def waiting(**options: Any) -> Message:
    return MessageFactory(**options)


def behind(**options: Any) -> Message:
    """A message that waits for its turn in a group; another one of it runs."""
    return MessageFactory(state="waiting", **options)


def held(*, lease: float = 60, **options: Any) -> Message:
    """A message that this test holds the claim of. It must be the only one that is due in its queue."""
    message = MessageFactory(**options)
    return claim_one(message.queue, lease=lease)


def held_many(number: int, *, lease: float = 60, **options: Any) -> list[Message]:
    MessageFactory.create_batch(number, **options)
    messages = Message.objects.claim(number, queue=options.get("queue", QUEUE), lease=lease)
    assert len(messages) == number
    return messages


def stuck(**options: Any) -> Message:
    """A message whose lease is over, as its holder has it."""
    message = held(**options)
    let_end(message)
    return message


def let_end(*messages: Message) -> None:
    """Lets the leases of these, which this test holds, be over; it may still be the first to settle them."""
    assert Message.objects.extend(messages, 0) == []


def done(**options: Any) -> Message:
    message = held(**options)
    message.ack()
    return message


def dead(*, reason: str = "unwanted", **options: Any) -> Message:
    message = held(**options)
    message.reject(reason)
    return message


def claim_one(queue: str = QUEUE, *, lease: float = 60) -> Message:
    [message] = Message.objects.claim(1, queue=queue, lease=lease)
    return message


def claimed(limit: int = 100, **options: Any) -> list[Any]:
    """Claims, and gives the payloads only."""
    return [message.payload for message in Message.objects.claim(limit, queue=QUEUE, **options)]


def as_claimed(message: Message) -> Claimed:
    """What a worker's claim of this message would have given it; the message is this very object."""
    made = Claimed(message.claim, (), lambda *_: message)
    made.read_count, made.max_reads = message.read_count, message.max_reads or 0
    made.lease_seconds = message.lease_seconds or 0.0
    return made


def written_by_sql(body: str, content_type: str = "json", **columns: Any) -> Message:
    """A row that no ``enqueue`` has checked."""
    columns = {"queue": QUEUE} | columns
    return Message.objects.create(body=body, content_type=content_type, **columns)


def row(message: Message) -> dict[str, Any]:
    """Every column as it stands in the database."""
    return Message.objects.values().get(pk=message.pk)


def rows() -> list[dict[str, Any]]:
    """The whole table."""
    return list(Message.objects.order_by("pk").values())


def let_pass(message: Message, seconds: float) -> None:
    """As if that many seconds had gone by for this message."""
    stored = row(message)
    moments = ("available_at", "due_at", "created_at", "claimed_at", "finished_at")
    earlier = {name: stored[name] - timedelta(seconds=seconds) for name in moments if stored[name]}
    Message.objects.filter(pk=message.pk).update(**earlier)


def let_pause_end(queue: str = QUEUE) -> None:
    """Let the end of a pause be now, by the database's clock; nothing else of the row changes."""
    assert Queue.objects.filter(pk=queue, is_paused=True).exclude(paused_until=None).update(paused_until=DbNow()) == 1
