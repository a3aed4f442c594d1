"""Many messages in one call, some of them with a token: each token is taken once, in few statements (P20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from django_dbqueue import DuplicateKey, Envelope
from django_dbqueue.models import Message, Once
from django_dbqueue.sessions.django_session import session_of
from tests.lifecycle.tokens import bodies, let_expire, named, send, send_many

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db(transaction=True)


def test_many_with_tokens() -> None:
    send("before", token="known")
    items = [
        Envelope("a", once="a"),
        Envelope("plain"),
        Envelope("a again", once="a"),
        Envelope("known", once="known"),
        Envelope("b", once="b", key="b", once_for=60),
        Envelope("in a group", once="g", group="g"),
        Envelope("also in it", group="g"),
        Envelope("b again", once="b2", key="b"),
    ]
    assert send_many(*items) == (5, 0, 3)
    ids = {message.payload: message.pk for message in Message.objects.all()}
    assert sorted(ids) == ["a", "also in it", "b", "before", "in a group", "plain"]
    assert named() == {ids["before"]: 1, ids["a"]: 1, ids["b"]: 2, ids["in a group"]: 1}
    assert send_many(*items) == (2, 0, 6)
    assert [send("x", token=token).pk for token in ("a", "b", "g", "b2")] == [
        ids["a"],
        ids["b"],
        ids["in a group"],
        ids["b"],
    ]


@pytest.mark.parametrize("group", [None, "g"])
def test_each_of_very_many_tokens_names_its_own_message(group: str | None) -> None:
    items = [
        Envelope(n, once=f"t{n}" if n % 3 else None, key=f"k{n}" if n % 2 else None, group=group) for n in range(700)
    ]
    assert send_many(*items) == (700, 0, 0)
    assert Once.objects.count() == sum(n % 3 > 0 for n in range(700))
    for n in (1, 2, 77, 350, 352, 698):
        assert send("again", token=f"t{n}").payload == n


def test_many_that_fail_free_their_tokens() -> None:
    send("live", token=None, key="k")
    with pytest.raises(DuplicateKey):
        send_many(Envelope("a", once="a"), Envelope("b", key="k", once="b"), on_conflict="error")
    assert not Once.objects.exists()
    assert send_many(Envelope("new", key="k", once="b"), on_conflict="update") == (0, 1, 0)
    assert send_many(Envelope("newer", key="k", once="b"), on_conflict="update") == (0, 0, 1)
    assert bodies() == ["new"]


def test_many_after_their_time() -> None:
    assert send_many(Envelope("a", once="a")) == (1, 0, 0)
    let_expire()
    assert send_many(Envelope("b", once="a"), Envelope("c", once="a")) == (1, 0, 1)
    assert bodies() == ["a", "b"]


def test_a_chunk_needs_few_statements_and_those_without_a_token_need_none_more(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    size = session_of("default").server.rows_of_an_insert
    with transaction.atomic(), django_assert_max_num_queries(8) as sent:
        send_many(*(Envelope(n, once=str(n)) for n in range(size)))
    assert sum("django_dbqueue_once" in each["sql"] for each in sent.captured_queries) in (2, 3)
    with transaction.atomic(), django_assert_max_num_queries(8) as sent:
        send_many(*range(size))
        send(token=None)
    assert not [each["sql"] for each in sent.captured_queries if "django_dbqueue_once" in each["sql"]]
