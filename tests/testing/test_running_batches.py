"""run_consumers with consumers that get a list of messages."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError

from django_dbqueue.models import Message, Queue
from django_dbqueue.testing import run_consumers
from tests.factories import QUEUE, MessageFactory, written_by_sql
from tests.testing.conftest import Consumes

pytestmark = pytest.mark.usefixtures("kind")


def of(number: int) -> list[Message]:
    return [MessageFactory(payload={"n": each}) for each in range(number)]


def numbers(messages: list[Message]) -> list[Any]:
    return [message.payload["n"] for message in messages]


@pytest.mark.parametrize("transactional", [True, False])
def test_a_handler_gets_as_many_as_it_takes(consumes: Consumes, transactional: bool) -> None:
    calls: list[list[Any]] = []
    consumes(lambda messages: calls.append(numbers(messages)), batch=3, transactional=transactional)
    of(7)
    assert len(run_consumers(QUEUE).done) == 7
    assert calls == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize("bad", [0, 3, 4, 6])
def test_in_a_transaction_halves_find_the_one_that_fails(consumes: Consumes, bad: int) -> None:
    calls: list[list[Any]] = []

    def handle(messages: list[Message]) -> None:
        calls.append(numbers(messages))
        Queue.objects.bulk_create(Queue(name=f"effect-{n}") for n in numbers(messages))
        if bad in numbers(messages):
            Queue.objects.create(name=f"effect-{messages[0].payload['n']}")

    consumes(handle, batch=10, transactional=True, max_reads=1)
    of(7)
    run = run_consumers(QUEUE, on_error="collect")
    assert [message.payload["n"] for message in run.dead] == [bad]
    assert isinstance(run.errors[0], IntegrityError)
    assert sorted(numbers(run.done)) == [n for n in range(7) if n != bad]
    assert Queue.objects.count() == 6
    assert calls[0] == list(range(7))
    assert calls.count([bad]) == 1
    assert len(calls) <= 7


def test_without_a_transaction_all_fail_and_none_is_called_again(consumes: Consumes) -> None:
    calls: list[list[Any]] = []

    def handle(messages: list[Message]) -> None:
        calls.append(numbers(messages))
        raise ValueError("as told")

    consumes(handle, batch=10)
    of(4)
    run = run_consumers(QUEUE, on_error="collect")
    assert calls == [[0, 1, 2, 3]]
    assert [each.outcome for each in run] == ["waiting"] * 4


@pytest.mark.parametrize("transactional", [True, False])
def test_a_handler_decides_about_one_of_them(consumes: Consumes, transactional: bool) -> None:
    def handle(messages: list[Message]) -> None:
        messages[0].reject("not wanted")
        messages[1].nack(delay=600)
        messages[2].ack()

    consumes(handle, batch=10, transactional=transactional)
    of(5)
    run = run_consumers(QUEUE)
    assert (numbers(run.dead), numbers(run.waiting), numbers(run.done)) == ([0], [1], [2, 3, 4])


@pytest.mark.parametrize("transactional", [True, False])
def test_what_can_not_be_decoded_is_rejected_before(consumes: Consumes, transactional: bool) -> None:
    calls: list[list[Any]] = []
    consumes(lambda messages: calls.append(numbers(messages)), batch=10, transactional=transactional)
    of(2)
    broken = written_by_sql("{")
    of(1)
    run = run_consumers(QUEUE, on_error="collect")
    assert calls == [[0, 1, 0]]
    assert [message.pk for message in run.dead] == [broken.pk]
