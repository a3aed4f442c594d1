"""Where article 004's statements fail: delayed messages by key.

What shows that ours don't, docs/comparison.md names.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_dbqueue import LeaseLost
from tests.factories import claim_one, held
from tests.systems.articles import article_004 as article
from tests.systems.articles import ask, in_its_own_dialect, present, session_with

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def table() -> Iterator[None]:
    with present(article.TABLE, article.create(), article.INDEX):
        yield


# INSERT IGNORE, that hides errors


@in_its_own_dialect
def test_article_004_a_key_that_is_too_long_is_cut_and_the_next_one_is_lost(table: None) -> None:
    long = "k" * 200
    assert article.offer(long + "1") == 1
    assert article.offer(long + "2") == 0
    assert ask("SELECT pKey FROM DelayedQueue") == [(long,)]


@in_its_own_dialect
def test_article_004_a_payload_that_is_missing_becomes_an_empty_one(table: None) -> None:
    assert article.offer("k", None) == 1
    assert ask("SELECT payload FROM DelayedQueue") == [(b"",)]


@in_its_own_dialect
@pytest.mark.parametrize("moment", ["tomorrow", "2022-10-22 10:00:00"])
def test_article_004_a_moment_that_is_no_number_becomes_the_distant_past_and_is_delivered_at_once(
    table: None, moment: str
) -> None:
    assert article.offer("k", at=moment) == 1
    key, scheduled_at, _ = article.poll() or ("", article.NOW, 0)
    assert key == "k"
    assert scheduled_at <= 2022


@in_its_own_dialect
@pytest.mark.parametrize("twin", ["CONTACT", "contáct"])
def test_article_004_a_key_that_its_collation_takes_for_another_is_dropped_as_a_duplicate(
    table: None, twin: str
) -> None:
    assert article.offer("contact") == 1
    assert article.offer(twin) == 0


# The timestamp that is a lock


def test_article_004_an_ack_sent_twice_deletes_the_new_message_that_another_holds(table: None) -> None:
    article.offer("k", b"old")
    key, seen, created = article.poll() or ("", 0, 0)
    first_lock = article.lock(key, seen)
    assert first_lock
    assert article.acknowledge(key, created, first_lock), "done; the reply is lost on the way"
    article.offer("k", b"new")
    key, seen, created_again = article.poll() or ("", 0, 0)
    second_lock = article.lock(key, seen)
    assert (second_lock, created_again) == (first_lock, created), "all in one second: one proof for two holders"
    assert article.acknowledge(key, created, first_lock), "the first, who asks again"
    assert ask("SELECT COUNT(*) FROM DelayedQueue") == [(0,)]


@in_its_own_dialect
def test_ours_claims_of_one_message_in_one_frozen_moment_are_distinguished() -> None:
    with session_with(f"timestamp = {article.NOW}"):
        first = held(key="k")
        first.release()
        second = claim_one()
        assert first.claimed_at == second.claimed_at
        with pytest.raises(LeaseLost):
            first.ack()
        second.ack()


# SELECT, then UPDATE: all run for the same row


def test_article_004_of_five_consumers_with_five_messages_due_four_come_away_with_nothing(table: None) -> None:
    for number in range(5):
        article.offer(f"k{number}")
    polled = [article.poll() for _ in range(5)]
    assert len(set(polled)) == 1
    key, seen, _ = polled[0] or ("", 0, 0)
    assert [bool(article.lock(key, seen)) for _ in range(5)] == [True, False, False, False, False]


# A key that is taken while its message is in work


def test_article_004_what_is_offered_while_the_key_is_in_work_is_lost(table: None) -> None:
    article.offer("k", b"old")
    key, seen, created = article.poll() or ("", 0, 0)
    locked = article.lock(key, seen)
    assert locked
    assert article.offer("k", b"new") == 0
    assert article.acknowledge(key, created, locked)
    assert article.poll() is None


# A second is long


@in_its_own_dialect
def test_article_004_within_a_second_the_alphabet_decides_who_is_first(table: None) -> None:
    article.offer("z, sent first")
    article.offer("a, sent second")
    key, _, _ = article.poll() or ("", 0, 0)
    assert key == "a, sent second"


# A message that nobody can process


def test_article_004_a_message_that_can_not_be_processed_comes_every_five_minutes_for_ever(table: None) -> None:
    article.offer("poison")
    now = article.NOW
    for _ in range(20):
        key, seen, _ = article.poll(now) or ("", 0, 0)
        assert article.lock(key, seen, now=now)
        now += 60 * 5
