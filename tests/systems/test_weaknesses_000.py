"""Where article 000's statements fail: the claim token and the broker.

What shows that ours don't, docs/comparison.md names.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from django_dbqueue.lifecycle import claimer as claim_module
from tests.concurrency.steps import meet
from tests.factories import claim_one, row, waiting
from tests.systems.articles import article_000 as article
from tests.systems.articles import by_default, in_its_own_dialect

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.django_db(transaction=True)
CONSUMERS = 10_000


# The token of 24 bits that collides


@in_its_own_dialect
def test_article_000_of_two_consumers_with_one_token_the_second_gets_the_messages_of_both(table: None) -> None:
    article.queue("for the first", "for the second")
    first = article.dequeue(token=7)
    second = article.dequeue(token=7)
    assert first == [(1, "for the first")]
    assert second == [(1, "for the first"), (2, "for the second")]
    for message_id, _ in second:
        article.accept(message_id)
    assert article.accept(first[0][0]) == 0


def test_article_000_its_tokens_meet_among_some_thousand_claims_and_ours_do_not() -> None:
    drawn = random.Random(2013)
    its_own = [int(drawn.random() * article.TOKENS) for _ in range(CONSUMERS)]
    assert len(set(its_own)) < CONSUMERS
    ours = [claim_module.new_token() for _ in range(CONSUMERS)]
    assert len(set(ours)) == CONSUMERS
    assert max(ours).bit_length() > 60


def test_ours_each_gets_its_own_message_even_if_two_draw_the_same_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_module, "new_token", lambda: 7)
    waiting(payload="for the first")
    waiting(payload="for the second")
    first, second = claim_one(), claim_one()
    assert (first.payload, second.payload) == ("for the first", "for the second")
    second.ack()
    assert row(first)["status"] == "run"
    first.ack()


# Accept and reject by id, with no fence


@in_its_own_dialect
def test_article_000_a_late_accept_deletes_the_message_that_another_works_on(table: None) -> None:
    article.queue("one")
    [(message_id, _)] = article.dequeue(token=1)
    article.reject(message_id)
    assert article.dequeue(token=2) == [(message_id, "one")]
    assert article.accept(message_id) == 1
    assert article.reject(message_id) == 0, "the second consumer fails, and has nothing left to give back"
    assert article.count() == 0


@in_its_own_dialect
def test_article_000_a_second_reject_gives_the_message_to_a_third_while_the_second_works_on_it(table: None) -> None:
    article.queue("one")
    [(message_id, _)] = article.dequeue(token=1)
    article.reject(message_id)
    second = article.dequeue(token=2)
    article.reject(message_id)
    assert article.dequeue(token=3) == second


# A consumer that dies keeps its messages


@in_its_own_dialect
def test_article_000_what_a_dead_consumer_had_claimed_is_given_to_none(table: None) -> None:
    article.queue("one")
    article.dequeue(token=1)
    assert article.count() == 0
    assert article.dequeue(token=2) == []


# The UPDATE with ORDER BY and LIMIT, behind which the others queue up


@in_its_own_dialect
def test_article_000_a_second_consumer_waits_for_the_first_ones_update(table: None) -> None:
    article.queue("one", "two")
    met = meet(by_default(lambda: article.dequeue(token=1)), by_default(lambda: article.dequeue(token=2)), waits=True)
    assert (met.first, met.second) == ([(1, "one")], [(2, "two")])


# What is rejected stands first again, without end


@in_its_own_dialect
def test_article_000_a_message_that_can_not_be_processed_comes_first_for_ever(table: None) -> None:
    article.queue("poison", "innocent")
    for token in range(20):
        [(message_id, payload)] = article.dequeue(token)
        assert payload == "poison"
        article.reject(message_id)
