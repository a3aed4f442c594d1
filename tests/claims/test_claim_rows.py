"""What a worker's claim gives: rows of which a message is made when somebody asks, with or without its body."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from django_dbqueue import LeaseLost
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.worker.payloads import read_body
from tests.factories import (
    QUEUE,
    row,
    waiting,
)
from tests.patience import patience

pytestmark = pytest.mark.django_db


def test_the_message_of_a_claimed_row_is_made_once_whoever_asks() -> None:
    waiting()
    [claimed] = Claimer(Message, DjangoSession("default"), QUEUE).take(1, lease=60, max_reads=5)
    assert claimed.made is None
    begun = threading.Barrier(2)

    def ask() -> Any:
        begun.wait(patience(10))
        return claimed.message

    with ThreadPoolExecutor(2) as pool:
        first, second = [each.result(patience(10)) for each in [pool.submit(ask), pool.submit(ask)]]
    assert first is second is claimed.message
    assert (first.pk, first.claim) == (claimed.claim.id, claimed.claim)


def test_a_body_that_is_larger_than_was_requested_stays_in_the_database_until_it_is_read() -> None:
    for text in ("é" * 50, "é" * 50 + "!"):
        waiting(payload=text)
    claimer = Claimer(Message, DjangoSession("default"), QUEUE, most_bytes=100)
    fits, left = (claimed.message for claimed in claimer.take(2, lease=60, max_reads=5))
    assert ("body" in fits.__dict__, "body" in left.__dict__) == (True, False)
    for message in (fits, left):
        read_body(session_of("default"), message)
        assert "body" in message.__dict__
    assert (fits.payload, left.payload) == ("é" * 50, "é" * 50 + "!")


def test_a_body_is_read_by_who_still_holds_the_claim_and_by_no_other() -> None:
    waiting(payload="x", key="k")
    claimer = Claimer(Message, DjangoSession("default"), QUEUE, most_bytes=0)
    [claimed] = claimer.take(1, lease=60, max_reads=5)
    waiting(payload="newer", key="k", on_conflict="update")
    with pytest.raises(LeaseLost):
        read_body(session_of("default"), claimed.message)


def test_what_was_read_for_the_handler_is_let_go_and_read_again_by_who_needs_it_later() -> None:
    waiting(payload="x")
    [claimed] = Claimer(Message, DjangoSession("default"), QUEUE, most_bytes=0).take(1, lease=60, max_reads=5)
    message = claimed.message
    read_body(session_of("default"), message)
    message.decode_now()
    claimed.let_go()
    assert not {"body", "_decoded"} & message.__dict__.keys()
    assert message.payload == "x"


def test_what_is_known_of_a_claimed_row_is_what_its_message_has() -> None:
    waiting()
    waiting(max_reads=2, lease=7)
    for claimed in Claimer(Message, DjangoSession("default"), QUEUE).take(2, lease=60, max_reads=5):
        known = (claimed.read_count, claimed.max_reads, claimed.crashes, claimed.lease_seconds)
        message = claimed.message
        assert known == (message.read_count, message.max_reads, message.crashes, message.lease_seconds)
        assert known == tuple(row(message)[name] for name in ("read_count", "max_reads", "crashes", "lease_seconds"))
