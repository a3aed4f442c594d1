"""Why a message rests that its handler has suspended (P21)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue import Suspended
from django_dbqueue.models import Message, Step
from django_dbqueue.models.fields import DbNow
from tests.factories import claim_one, held, waiting
from tests.insight.test_why import ask

pytestmark = pytest.mark.django_db


def suspended(call: Callable[[], Any]) -> None:
    with pytest.raises(Suspended):
        call()


def test_it_sleeps_until_a_moment() -> None:
    message = held()
    suspended(lambda: message.sleep("cool off", timedelta(days=2)))
    answer = ask(message)
    until = f"{Step.objects.get().until:%Y-%m-%d %H:%M:%S} UTC"
    assert (answer.code, answer.verbs) == ("sleeps", ("reject", "drop"))
    assert f"until {until}" in answer.text
    assert "“cool off”" in answer.text


def test_it_waits_for_an_event_by_whatever_name_the_wait_has() -> None:
    message = held()
    suspended(lambda: message.wait_for("paid:17", name="the payment"))
    answer = ask(message)
    assert answer.code == "waits_for_event"
    assert "“paid:17”, without" in answer.text
    assert answer.advice == "Event.objects.emit(“paid:17”) wakes it."


def test_it_waits_until_its_timeout() -> None:
    message = held()
    suspended(lambda: message.wait_for("paid:17", timeout=3_600))
    until = f"{Step.objects.get().until:%Y-%m-%d %H:%M:%S} UTC"
    assert f"“paid:17”, until {until}" in ask(message).text


def test_between_two_attempts_it_waits_for_neither() -> None:
    message = held()
    suspended(lambda: message.wait_for("paid:17"))
    Message.objects.filter(pk=message.pk).update(available_at=DbNow())
    claim_one().nack(delay=3_600, error="ValueError: as told")
    assert ask(message).code == "not_due"


def test_a_delayed_message_costs_two_reads_more() -> None:
    message = waiting(delay=3_600)
    with CaptureQueriesContext(connection) as queries:
        assert ask(message).code == "not_due"
    assert sum("_step" in query["sql"] or "_waiter" in query["sql"] for query in queries) == 2
