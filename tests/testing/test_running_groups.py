"""run_consumers with messages of groups: in order, also what a test's own transaction has sent."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from django_dbqueue.consumers import Retry
from django_dbqueue.models import Message
from django_dbqueue.testing import run_consumers
from tests.factories import QUEUE, MessageFactory
from tests.testing.conftest import Consumes

pytestmark = pytest.mark.usefixtures("kind")


def test_messages_of_a_group_run_in_order_also_if_one_is_retried(consumes: Consumes) -> None:
    calls: list[Any] = []

    def handle(message: Message) -> None:
        calls.append(message.payload)
        if calls == [0]:
            raise Retry(after=0)

    consumes(handle)
    with transaction.atomic():
        for number in range(4):
            MessageFactory(payload=number, group="a")
    assert len(run_consumers(QUEUE).done) == 4
    assert calls == [0, 0, 1, 2, 3]
    assert not Message.objects.waiting(QUEUE).exists()
