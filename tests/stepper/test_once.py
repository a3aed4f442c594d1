"""Senders with one token beside each other, beside a rollback, and beside whoever deletes the expired (P20)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from django_dbqueue import Envelope
from django_dbqueue.lifecycle.expired_rows import forget_tokens
from django_dbqueue.models import Message, Once
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import session_of
from tests.factories import QUEUE
from tests.stepper.exploring import Explored
from tests.stepper.scene import Ended, Scene


def send(payload: str, **options: Any) -> Message:
    return Message.objects.enqueue(payload, queue=QUEUE, once="t", **options)


def send_two() -> Any:
    return Message.objects.enqueue_many([Envelope("bob", once="t"), Envelope("bob", once="u")], queue=QUEUE)


def the_only_one() -> Message:
    """The one message there is, which the one token names."""
    [message] = Message.objects.all()
    assert list(Once.objects.values_list("message_id", flat=True)) == [message.pk]
    return message


@pytest.mark.parametrize("key", [None, "k"])
def test_of_two_who_send_one_token_one_creates_and_the_other_gets_its_message(
    explore: Callable[..., Explored], key: str | None
) -> None:
    def world() -> Scene:
        def check(ended: Ended) -> str:
            first = the_only_one()
            assert {ended[name].pk for name in ("ann", "bob")} == {first.pk}
            assert sorted(ended[name].outcome for name in ("ann", "bob")) == ["created", "ignored"]
            assert ended[first.payload].outcome == "created"
            return f"{first.payload} first"

        return Scene({"ann": lambda: send("ann", key=key), "bob": lambda: send("bob", key=key)}, check)

    assert set(explore(world).seen) == {"ann first", "bob first"}


@pytest.mark.parametrize("ends", ["commits", "rolls back"])
@pytest.mark.parametrize("is_expired", [False, True], ids=["new", "expired"])
def test_who_sends_a_token_during_a_transaction_that_has_it_waits_for_its_end(
    explore: Callable[..., Explored], ends: str, is_expired: bool
) -> None:
    def world() -> Scene:
        if is_expired:
            Message.objects.filter(pk=send("old").pk).delete()
            Once.objects.update(expires_at=DbNow())

        def work() -> None:
            with transaction.atomic():
                send("ann")
                transaction.set_rollback(ends == "rolls back")

        def check(ended: Ended) -> str:
            stored, met = the_only_one(), ended["bob"]
            assert met.pk == stored.pk
            assert stored.payload == ("bob" if met.outcome == "created" else "ann")
            return str(met.outcome)

        return Scene({"ann": work, "bob": lambda: send("bob")}, check)

    explored = explore(world)
    assert set(explored.seen) == ({"created"} if ends == "rolls back" else {"created", "ignored"})
    assert (explored.waits > 0) is (connection.vendor != "sqlite")


def test_who_sends_many_alongside_one_of_their_tokens_sends_the_others(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        def check(ended: Ended) -> str:
            bodies = sorted(message.payload for message in Message.objects.all())
            named = set(Once.objects.values_list("message_id", flat=True))
            assert named == set(Message.objects.values_list("pk", flat=True))
            report = ended["bob"]
            if ended["ann"].outcome == "created":
                assert (bodies, report.created, report.ignored) == (["ann", "bob"], 1, 1)
                return "ann first"
            assert (bodies, report.created, report.ignored) == (["bob", "bob"], 2, 0)
            return "bob first"

        return Scene({"ann": lambda: send("ann"), "bob": send_two}, check)

    assert set(explore(world).seen) == {"ann first", "bob first"}


def test_who_deletes_the_expired_takes_no_token_from_a_sender(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        Message.objects.filter(pk=send("old").pk).delete()
        Once.objects.update(expires_at=DbNow())

        def check(ended: Ended) -> str:
            assert the_only_one().pk == ended["sender"].pk
            assert ended["sender"].outcome == "created"
            return f"{ended['worker']} deleted"

        def forget() -> int:
            return forget_tokens(session_of("default"), limit=10)

        return Scene({"worker": forget, "sender": lambda: send("new")}, check)

    assert set(explore(world).seen) == {"0 deleted", "1 deleted"}
