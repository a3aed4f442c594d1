"""Only the holder of the present claim settles, and at most once; who lost it changes nothing (P5, P6).

Batches: ``test_settle_many.py``; in the caller's transaction: ``test_settle_in_atomic.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_dbqueue import InvalidMessage, LeaseLost
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.signals import lease_lost
from tests.factories import QUEUE, claim_one, held, let_pass, row, rows
from tests.lifecycle.losing import LOST_BY, VERBS, dropped, requeued, rescued, rescued_and_claimed_again, updated

pytestmark = pytest.mark.django_db

# What each verb writes


def test_ack_makes_a_message_done() -> None:
    message = held(key="k")
    message.ack()
    stored = row(message)
    assert (stored["status"], stored["live"], stored["error"], stored["crashes"]) == ("y", None, None, 0)
    assert stored["available_at"] == stored["finished_at"] >= stored["claimed_at"]
    assert (stored["key"], stored["read_count"]) == ("k", 1)
    assert message.status == "y"


def test_ack_forgets_the_error_of_an_earlier_delivery() -> None:
    held().nack(error="failed once")
    message = claim_one()
    assert message.error == "failed once"
    message.ack()
    assert row(message)["error"] is None


def test_nack_gives_back_charged_where_it_stood() -> None:
    message = held(key="k")
    due_at = row(message)["due_at"]
    message.nack(error="failed")
    stored = row(message)
    assert (stored["status"], stored["read_count"], stored["live"], stored["error"]) == ("n", 1, 1, "failed")
    assert stored["available_at"] == stored["due_at"] == due_at
    assert (stored["conn_id"], stored["worker_id"], stored["finished_at"]) == (None, None, None)
    assert message.status == "n"


@pytest.mark.parametrize("delay", [30, timedelta(seconds=30)])
def test_nack_with_a_delay_is_due_that_long_from_now(delay: Any) -> None:
    message = held()
    let_pass(message, 1000)
    message.nack(delay=delay)
    stored = row(message)
    assert stored["due_at"] == stored["available_at"]
    assert 1029 < (stored["due_at"] - stored["claimed_at"]).total_seconds() < 1045
    assert Message.objects.delayed(QUEUE).get() == message


def test_nack_without_an_error_keeps_the_one_that_stood() -> None:
    held().nack(error="the first")
    message = claim_one()
    message.nack()
    assert row(message)["error"] == "the first"


def test_nack_of_the_last_read_makes_it_dead_whatever_the_delay() -> None:
    message = held(max_reads=1)
    due_at = row(message)["due_at"]
    message.nack(delay=30, error="failed")
    stored = row(message)
    assert (stored["status"], stored["available_at"], stored["error"]) == ("n", None, "failed")
    assert (stored["due_at"], bool(stored["finished_at"])) == (due_at, True)


def test_reject_makes_a_message_dead_with_the_reason() -> None:
    message = held(key="k")
    message.reject("no such user")
    stored = row(message)
    assert (stored["status"], stored["available_at"], stored["live"]) == ("n", None, None)
    assert (stored["error"], stored["read_count"], bool(stored["finished_at"])) == ("no such user", 1, True)
    assert message.is_dead


def test_reject_without_a_reason_stores_that_it_was_rejected() -> None:
    message = held()
    message.reject()
    assert row(message)["error"] == "Rejected"


def test_release_gives_back_uncharged_where_it_stood() -> None:
    message = held()
    before = row(message)
    message.release()
    stored = row(message)
    assert (stored["status"], stored["read_count"], stored["conn_id"]) == ("n", 0, None)
    assert stored["available_at"] == stored["due_at"] == before["due_at"]


def test_release_of_a_retry_keeps_its_place_and_its_earlier_charges() -> None:
    held().nack(delay=20)
    message = Message.objects.get()
    let_pass(message, 21)
    due_at = row(message)["due_at"]
    claim_one().release()
    assert (row(message)["read_count"], row(message)["available_at"]) == (1, due_at)


def test_extend_moves_the_deadline_and_nothing_else() -> None:
    message = held()
    before = row(message)
    message.extend(500)
    after = row(message)
    assert after.pop("available_at") > before.pop("available_at")
    assert after == before


def test_an_exception_is_kept_as_class_message_and_traceback() -> None:
    def fail() -> None:
        raise ValueError("no such\0user \ud800 \N{GRINNING FACE}")

    message = held()
    try:
        fail()
    except ValueError as error:
        message.nack(error=error)
    kept = row(message)["error"]
    assert kept.startswith("ValueError: no such\\0user \\ud800 \N{GRINNING FACE}\n\nTraceback")
    assert "in fail" in kept


@pytest.mark.parametrize("verb", ["nack", "reject"])
def test_an_error_is_cut_at_16_kib_without_breaking_a_character(verb: str) -> None:
    message = held()
    text = "a" + "\N{GRINNING FACE}" * 10_000
    message.nack(error=text) if verb == "nack" else message.reject(text)
    kept = row(message)["error"]
    assert text.startswith(kept)
    assert 16 * 1024 - 4 < len(kept.encode()) <= 16 * 1024


@pytest.mark.parametrize("seconds", [-1, float("nan"), "5", 1e12])
def test_a_bad_delay_or_lease_is_refused_and_the_claim_stays(seconds: Any) -> None:
    message = held()
    before = row(message)
    for call in (
        lambda: message.nack(delay=seconds),
        lambda: message.extend(seconds),
        lambda: Message.objects.nack([message], delay=seconds),
        lambda: Message.objects.extend([message], seconds),
    ):
        with pytest.raises(InvalidMessage):
            call()
    assert row(message) == before
    message.ack()


# P5: who lost the claim changes nothing


@pytest.mark.parametrize("lose", LOST_BY, ids=lambda lose: lose.__name__)
@pytest.mark.parametrize("verb", VERBS)
def test_who_lost_the_claim_changes_nothing_and_is_informed(verb: str, lose: Callable[[Message], None]) -> None:
    one, many = VERBS[verb]
    message = held(key="k")
    lose(message)
    before = rows(), list(ArchivedMessage.objects.values())
    with pytest.raises(LeaseLost, match=f"of message {message.pk} changed nothing") as refused:
        one(message)
    assert refused.value.message_id == message.pk
    assert message.lease_lost
    assert not message.settled
    message.lease_lost = False
    assert many([message]) == [message]
    assert message.lease_lost
    assert (rows(), list(ArchivedMessage.objects.values())) == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_stale_object_that_reads_the_row_again_gains_no_claim_by_it(verb: str) -> None:
    message = held(key="k")
    rescued_and_claimed_again(message)
    message.refresh_from_db()
    before = row(message)
    with pytest.raises(LeaseLost):
        VERBS[verb][0](message)
    assert row(message) == before


def test_a_lost_lease_is_signalled_with_message_and_verb() -> None:
    heard: list[dict[str, Any]] = []

    def hear(**signal: Any) -> None:
        heard.append(signal)

    message = held()
    message.ack()
    lease_lost.connect(hear)
    try:
        with pytest.raises(LeaseLost):
            message.nack()
        Message.objects.release([message])
    finally:
        lease_lost.disconnect(hear)
    assert [(signal["sender"], signal["queue"], signal["message_id"], signal["verb"]) for signal in heard] == [
        (Message, QUEUE, message.pk, "nack"),
        (Message, QUEUE, message.pk, "release"),
    ]


# P6: at most one ack, and decidable after


def test_the_second_ack_is_refused() -> None:
    message = held()
    message.ack()
    before = row(message)
    with pytest.raises(LeaseLost):
        message.ack()
    assert Message.objects.ack([message]) == [message]
    assert row(message) == before


def test_after_a_lost_reply_the_row_shows_whose_ack_it_was() -> None:
    message = held()
    token = message.claim_token
    message.ack()
    assert (row(message)["status"], row(message)["claim_token"]) == ("y", token)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if not verb.startswith("extend")])
def test_the_token_of_the_last_claim_stays_in_every_state(verb: str) -> None:
    message = held(key="k")
    token = message.claim_token
    VERBS[verb][0](message)
    assert row(message)["claim_token"] == message.claim_token == token


def test_the_token_stays_after_a_rescue_an_update_a_requeue_and_a_drop() -> None:
    for end in (rescued, updated, requeued, dropped):
        message = held(key="k")
        token = message.claim_token
        end(message)
        assert row(message)["claim_token"] == token
        Message.objects.filter(pk=message.pk).drop_all("for the next")
