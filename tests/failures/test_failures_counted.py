"""Which group of failures the event of a move counts for: one of its queue, or none."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.models import Failure, Message, MessageEvent
from tests.factories import QUEUE, held
from tests.lifecycle.moves import MOVES

pytestmark = pytest.mark.django_db


def group_of(message: Message) -> Any:
    event = MessageEvent.objects.filter(message_id=message.pk).latest("id")
    return Failure.objects.filter(pk=event.failure_id).values_list("queue", "exception").first()


FAILS = ("a failure", "the last failure", "a rescue", "the last rescue")


@pytest.mark.parametrize("name", FAILS)
def test_a_failure_counts_for_its_group(name: str) -> None:
    make, move, _ = MOVES[name]
    message = make()
    move(message)
    queue, _exception = group_of(message)
    assert queue == QUEUE


@pytest.mark.parametrize("name", ["a requeue", "an operator's rejection", "a drop", "an operator's release"])
def test_what_an_operator_does_counts_for_none(name: str) -> None:
    make, move, _ = MOVES[name]
    message = make()
    groups = Failure.objects.count()
    move(message)
    assert (group_of(message), Failure.objects.count()) == (None, groups)


def test_one_statement_over_two_queues_counts_for_a_group_in_each() -> None:
    here, there = held(queue="here"), held(queue="there")
    assert Message.objects.nack([here, there], error=KeyError("k")) == []
    assert [group_of(message) for message in (here, there)] == [("here", "KeyError"), ("there", "KeyError")]


def test_a_rescue_that_finds_nothing_makes_no_group() -> None:
    held()
    with CaptureQueriesContext(connection) as queries:
        assert Message.objects.rescue(QUEUE) == 0
    assert not Failure.objects.exists()
    assert not [query for query in queries if "failure" in query["sql"]]
