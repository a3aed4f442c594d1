"""Where article 003's statements fail: owners, batches and takeover.

What shows that ours don't, docs/comparison.md names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import DataError

from django_dbqueue.models import Message
from tests.concurrency.steps import aside, meet
from tests.factories import QUEUE, claim_one, row, waiting
from tests.systems.articles import article_003 as article
from tests.systems.articles import ask, by_default, in_its_own_dialect, run, session_with

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.django_db(transaction=True)


# The delete by owner


@in_its_own_dialect
def test_article_003_who_took_a_second_batch_deletes_it_unseen_with_the_first(table: None) -> None:
    article.enqueue("one")
    first = article.dequeue("me")
    article.enqueue("two")
    run(article.TAKE, "me")  # the next batch, taken while the first is in work
    assert first == ["one"]
    assert article.finish("me") == 2
    assert ask("SELECT COUNT(*) FROM message_queue") == [(0,)], "and nobody has seen message two"


def test_ours_an_ack_of_one_batch_leaves_the_other() -> None:
    waiting()
    first = Message.objects.claim(10, queue=QUEUE)
    waiting()
    second = Message.objects.claim(10, queue=QUEUE)
    assert Message.objects.ack(first) == []
    assert row(second[0])["status"] == "run"
    assert Message.objects.ack(second) == []


# The takeover that has no fence: an owner's name says who, and not which time


@in_its_own_dialect
def test_article_003_a_slow_owner_deletes_what_its_own_name_took_over(table: None) -> None:
    article.enqueue("one")
    article.dequeue("host-a")
    article.a_minute_passes()
    assert article.dequeue("host-a") == ["one"], "the process that was started anew on the same machine"
    assert article.finish("host-a") == 1, "by the old one, that was only slow"
    assert article.finish("host-a") == 0


@in_its_own_dialect
def test_article_003_a_batch_that_takes_longer_than_a_minute_is_processed_twice(table: None) -> None:
    article.enqueue("one", "two")
    assert article.dequeue("a") == ["one", "two"]
    article.a_minute_passes()
    assert article.dequeue("b") == ["one", "two"]
    assert article.finish("a") == 0


# The takeover that reads, and locks, everything


@in_its_own_dialect
def test_article_003_a_consumer_that_finds_fewer_than_ten_holds_up_those_who_finish(table: None) -> None:
    article.enqueue("one")
    article.dequeue("a")
    met = meet(by_default(lambda: run(article.TAKE, "b")), by_default(lambda: article.finish("a")), waits=True)
    assert (met.first, met.second) == (0, 1)


@in_its_own_dialect
def test_article_003_a_consumer_that_finds_fewer_than_ten_holds_up_who_sends(table: None) -> None:
    met = meet(by_default(lambda: run(article.TAKE, "b")), lambda: article.enqueue("one"), waits=True)
    assert met.first == 0


# NOW() of the session's time zone


@in_its_own_dialect
def test_article_003_a_consumer_in_another_time_zone_robs_all_others(table: None) -> None:
    with session_with("time_zone = '+00:00'"):
        article.enqueue("one")
        assert article.dequeue("a") == ["one"]
        with aside() as elsewhere:
            elsewhere.do(lambda: run("SET time_zone = '+01:00'"))
            assert elsewhere.do(lambda: article.dequeue("b")) == ["one"]
        assert article.finish("a") == 0


# A message that kills whoever takes it


@in_its_own_dialect
def test_article_003_a_message_that_kills_its_consumers_is_claimed_again_for_ever(table: None) -> None:
    article.enqueue("poison")
    for victim in range(20):
        assert article.dequeue(f"victim {victim}") == ["poison"]
        article.a_minute_passes()


# What its column can't hold


@in_its_own_dialect
def test_article_003_a_message_of_256_bytes_is_refused_or_cut(table: None) -> None:
    with pytest.raises(DataError):
        article.enqueue("x" * 256)
    with session_with("sql_mode = ''"):
        article.enqueue("x" * 256)
        assert ask("SELECT LENGTH(message) FROM message_queue") == [(255,)]


@in_its_own_dialect
def test_ours_a_long_message_is_kept_whole_even_where_the_server_would_cut() -> None:
    with session_with("sql_mode = ''"):
        waiting(payload="x" * 100_000)
        assert claim_one().payload == "x" * 100_000
