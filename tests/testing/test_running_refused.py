"""What run_consumers refuses with a sentence: it runs nothing then."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from django_dbqueue import InvalidMessage, TransactionNotAllowed
from django_dbqueue.models import Message
from django_dbqueue.testing import run_consumers
from tests.factories import QUEUE, MessageFactory
from tests.testing.conftest import Consumes
from tests.testing.handlers import succeed

pytestmark = pytest.mark.usefixtures("kind")


def test_a_queue_without_a_consumer_is_refused_with_a_guess(consumes: Consumes) -> None:
    consumes(succeed, queue="emails")
    with pytest.raises(
        ImproperlyConfigured, match="No consumer is registered for queue 'email': did you mean 'emails'"
    ):
        run_consumers("email")
    with pytest.raises(ImproperlyConfigured, match=r"for queue 'x': is its module queue_consumers in an installed app"):
        run_consumers(["emails", "x"])
    with pytest.raises(InvalidMessage, match="is not a queue name"):
        run_consumers("no name")


def test_inside_atomic_it_is_refused_for_no_worker_sees_what_is_not_committed(consumes: Consumes) -> None:
    consumes(succeed)
    MessageFactory()
    with (
        transaction.atomic(),
        pytest.raises(TransactionNotAllowed, match=r"run_consumers\(\) runs in a transaction of its"),
    ):
        run_consumers(QUEUE)
    assert Message.objects.ready(QUEUE).count() == 1


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"on_error": "ignore"}, "on_error must be 'raise' or 'collect', not 'ignore'"),
        ({"with_delayed": True, "until": timedelta(1)}, "Give with_delayed or until, not both"),
        ({"until": datetime(2060, 1, 1)}, "until must be an aware datetime"),  # noqa: DTZ001
        ({"limit": 0}, "limit must be a whole number from 1"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_run(consumes: Consumes, wrong: Any, text: str) -> None:
    consumes(succeed)
    MessageFactory()
    with pytest.raises(ValueError, match=text):
        run_consumers(QUEUE, **wrong)
    assert Message.objects.ready(QUEUE).count() == 1
