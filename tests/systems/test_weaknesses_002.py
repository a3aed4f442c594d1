"""Where article 002's routines fail: SQS in SQL.

What shows that ours don't, docs/comparison.md names.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group

from tests.concurrency.steps import aside, meet
from tests.factories import held
from tests.systems.articles import (
    article_002,
    ask,
    by_default,
    in_its_own_dialect,
    rolled_back,
    run,
    session_with,
)
from tests.systems.articles.article_002 import Schema

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def article() -> Iterator[Schema]:
    with article_002.installed() as schema:
        yield schema


# The read that locks every row


@in_its_own_dialect
def test_article_002_a_read_of_an_empty_queue_holds_up_the_readers_of_another(article: Schema) -> None:
    message_id = article.put("full", "{}", 2, 0)
    met = meet(by_default(lambda: article.begin_to_read("empty")), lambda: article.get("full"), waits=True)
    assert (met.first, met.second) == ([], message_id)


@in_its_own_dialect
def test_article_002_a_read_of_an_empty_queue_holds_up_who_puts_into_another(article: Schema) -> None:
    met = meet(by_default(lambda: article.begin_to_read("empty")), lambda: article.put("full", "{}", 2, 0), waits=True)
    assert met.second == 1


@in_its_own_dialect
def test_article_002_of_two_readers_the_second_waits_though_there_are_two_messages(article: Schema) -> None:
    one, two = article.put("q", "{}", 1, 60), article.put("q", "{}", 1, 60)
    met = meet(by_default(lambda: article.begin_to_read("q")), lambda: article.get("q"), waits=True)
    assert met.first == [(one,)]
    assert met.second == one, "it waited, and got the same, since the first had not come to its UPDATE"
    assert article.get("q") == two


# START TRANSACTION in a procedure


@in_its_own_dialect
@pytest.mark.parametrize("routine", ["get", "delete"])
def test_article_002_a_call_commits_the_rows_that_its_caller_has_not_committed(article: Schema, routine: str) -> None:
    message_id = article.put("q", "{}", 2, 0)

    def work_and_call() -> None:
        Group.objects.create(name="half done")
        if routine == "get":
            article.get("q")
        else:
            article.delete(message_id)

    rolled_back(work_and_call)
    assert Group.objects.filter(name="half done").exists()


# User variables


@in_its_own_dialect
def test_article_002_a_call_overwrites_its_callers_variables(article: Schema) -> None:
    run("SET @id = 'mine', @payload = 'mine', @queue_name = 'mine'")
    message_id = article.put("q", "{}", 2, 0)
    article.get("q")
    assert ask("SELECT @id, @payload, @queue_name") == [(message_id, "{}", "q")]


@in_its_own_dialect
def test_ours_a_whole_life_sets_no_variable_of_the_session() -> None:
    run("SET @id = 'mine', @payload = 'mine', @queue_name = 'mine', @_now = 'mine', @_id = 'mine', @LID = 'mine'")
    held().ack()
    assert ask("SELECT @id, @payload, @queue_name, @_now, @_id, @LID") == [("mine",) * 6]


# Delete by id only


@in_its_own_dialect
def test_article_002_who_was_too_slow_deletes_the_message_that_another_works_on(article: Schema) -> None:
    slow = article.put("q", "{}", 2, 0)
    assert article.get("q") == slow
    assert article.get("q") == slow, "its time is over: a second one has it"
    article.delete(slow)
    assert article.get("q") is None
    [(deleted_at,)] = article.ask("SELECT deleted_at FROM main_schema.main_queue")
    assert deleted_at is not None


# What has spent its reads


@in_its_own_dialect
def test_article_002_a_message_whose_only_reader_died_is_lost_and_resembles_one_in_work(article: Schema) -> None:
    article.put("q", "reader dies", 1, 60)
    article.put("q", "reader works", 1, 60)
    article.get("q")
    article.get("q")
    article.run("UPDATE main_schema.main_queue SET next_read = next_read - INTERVAL 1 DAY")
    assert article.get("q") is None
    rows = article.ask("SELECT read_cnt, max_read_cnt, deleted_at FROM main_schema.main_queue")
    assert rows == [(1, 1, None)] * 2


# NOW() of the session's time zone


@in_its_own_dialect
def test_article_002_a_message_put_in_one_time_zone_is_hours_away_in_another(article: Schema) -> None:
    with session_with("time_zone = '+05:00'"):
        message_id = article.put("q", "{}", 2, 0)
        with aside() as elsewhere:
            elsewhere.do(lambda: run("SET time_zone = '+00:00'"))
            assert elsewhere.do(lambda: article.get("q")) is None
        assert article.get("q") == message_id


# What nobody checks


@in_its_own_dialect
def test_article_002_a_message_without_a_limit_or_a_time_is_lost_without_a_word(article: Schema) -> None:
    assert article.put("q", "no limit said", None, 0)
    assert article.get("q") is None
    untimed = article.put("q", "no time said", 3, None)
    assert article.get("q") == untimed
    assert article.get("q") is None, "next_read is NULL now, and stays so"


@in_its_own_dialect
def test_article_002_a_reader_of_one_queue_gets_the_messages_of_its_namesake(article: Schema) -> None:
    message_id = article.put("mails", "{}", 1, 0)
    assert article.get("MAILS") == message_id
