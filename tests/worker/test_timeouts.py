"""The child's own watch on what runs too long in its threads; its supervisor, which watches too, is far away."""

from __future__ import annotations

import dataclasses
import time
from types import SimpleNamespace
from typing import Any

import pytest

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.timeouts import Timeouts
from tests.factories import QUEUE, as_claimed, held

pytestmark = [pytest.mark.once, pytest.mark.django_db]


def test_the_timeout_of_a_messages_own_is_watched_though_no_consumer_has_one() -> None:
    runs_tasks: Any = SimpleNamespace(name_of=lambda _headers: "reports.monthly")
    consumer, board, replaced = Consumer(QUEUE, print, runner=runs_tasks), Board(1), list[bool]()
    holding = Holding(board)
    watch = Timeouts([consumer], holding, board, lambda: replaced.append(True))
    options = consumer.resolved()
    assert options.timeout is None
    delivery = Delivery(as_claimed(held()), session_of("default"), consumer, options, frozenset())
    holding.keep(delivery)
    holding.offer(delivery)
    assert holding.take() is delivery
    delivery.hold_to(dataclasses.replace(options, timeout=60.0))
    watch.run(time.monotonic())
    assert (delivery.timed_out, replaced) == (False, [])
    watch.run(time.monotonic() + 61)
    assert (delivery.timed_out, replaced) == (True, [True])
