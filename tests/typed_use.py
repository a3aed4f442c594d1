"""How a typed project uses the app. Only mypy reads this (``files`` in pyproject.toml); nothing of it runs.

Without it, ``Message.objects`` could turn into Any unseen, and a user's mistakes would pass.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Literal, assert_type
from unittest.mock import ANY

from django_dbqueue import Envelope, Retry, consumer, testing
from django_dbqueue.lifecycle.enqueue_many import EnqueueReport
from django_dbqueue.models import Event, Message, Queue, Schedule
from django_dbqueue.models.querysets import MessageQuerySet
from django_dbqueue.operations.outcome import Changed


@consumer("emails", lease=60, cron="0 3 * * *", timezone="Europe/Berlin", missed="skip")
def send(message: Message) -> None:
    raise Retry("busy", after=1)


@consumer("letters")
async def send_later(message: Message) -> None:
    assert_type(await Message.objects.aenqueue(message.payload, queue="emails"), Message)


def senders() -> None:
    assert_type(Message.objects.enqueue({"to": "ann"}, queue="emails", on_conflict="update"), Message)
    assert_type(Message.objects.enqueue_many([Envelope({"to": "bob"}, key="b"), "text"], queue="emails"), EnqueueReport)
    assert_type(Message.objects.get_by_key("emails", "b"), Message | None)
    assert_type(Message.objects.drop("emails", "b", reason="cancelled"), bool)
    Message.objects.enqueue({}, on_conflict="nope")  # type: ignore[arg-type]
    Message.objects.enqueue({}, "emails")  # type: ignore[call-arg]
    Message.objects.claimed()  # type: ignore[attr-defined]


def holders() -> None:
    for message in Message.objects.claim(10, queue="emails", lease=60):
        with message.transaction():
            assert_type(message, Message)
    assert_type(Message.objects.ack(Message.objects.using("other").claim()), list[Message])


def operators() -> None:
    assert_type(Message.objects.dead("emails"), MessageQuerySet[Message])
    assert_type(Message.objects.using("other").stuck(), MessageQuerySet[Message])
    assert_type(Message.objects.dead("emails").requeue(), Changed)
    assert_type(Message.objects.delayed("emails").due_now(by="ann"), Changed)
    assert_type(Message.objects.dead("emails").move_to("letters"), Changed)
    assert_type(Message.objects.peek("emails", state="done"), list[Message])
    assert_type(Message.objects.archive("emails", older_than=0), int)
    assert_type(Queue.objects.paused_names(), set[str])
    assert_type(Schedule.objects.add("nightly", queue="emails", cron="0 3 * * *", payload=[1]), Schedule)
    assert_type(Schedule.objects.disable("nightly", reason="noise", by="ann"), Schedule)
    assert_type(Schedule.objects.run_now("nightly"), Message)
    Schedule.objects.add("nightly", queue="emails", cron="0 3 * * *", missed="never")  # type: ignore[arg-type]
    Queue.objects.pause("emails", by=7)  # type: ignore[arg-type]


def testers(dbqueue: testing.DBQueueFixture) -> None:
    drained = testing.run_consumers("emails", until=timedelta(hours=1), on_error="collect")
    assert_type(drained.done, list[Message])
    assert_type(drained[0].outcome, Literal["done", "waiting", "dead", "lost"])
    assert_type(testing.assert_enqueued("emails", payload={"to": ANY}, key=None, count=1), list[Message])
    assert_type(dbqueue.run_consumers(), testing.Drained)
    assert_type(dbqueue.message(queue="emails"), Message)
    testing.run_consumers("emails", on_error="ignore")  # type: ignore[arg-type]
    dbqueue.refute_enqueued("emails", count=1)  # type: ignore[call-arg]


async def shared_client() -> AsyncIterator[dict[str, str]]:
    yield {}


@consumer("webhooks", resource=shared_client, timeout=30)
async def deliver(message: Message, client: dict[str, str]) -> None:
    await message.aextend(120)
    assert_type(await message.aack(), None)
    await message.anack(delay=1, error="busy")
    await message.areject("no such user")
    await message.arelease()
    assert_type(message.remaining(), float | None)
    assert_type(message.deadline, datetime | None)
    await message.aack(1)  # type: ignore[call-arg]


@consumer("orders")
def in_steps(message: Message) -> None:
    message.step("charge", int, "17")
    with message.step("book") as step:
        assert_type(step.is_new, bool)
        step.save(1)  # type: ignore[attr-defined]
    with message.resumable_step("import") as longer:
        assert_type(longer.is_new, bool)
        assert_type(longer.save({"last": 17}), None)
        longer.cursor = 17  # type: ignore[misc]
    message.sleep("cool off", timedelta(days=2))
    message.wait_for("paid:17", timeout=60, name="the payment")
    assert_type(message.steps_done, tuple[str, ...])
    assert_type(Event.objects.emit("paid:17", {"amount": 5}), bool)
    message.step()  # type: ignore[call-overload]
    message.sleep("cool off")  # type: ignore[call-arg]
