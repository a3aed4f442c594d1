"""A handler that runs on is reported to listeners: once for its delivery, and where in the code it is."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from django_dbqueue import signals
from django_dbqueue.consumers import registry
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.coroutines import CANCEL, TIMEOUT
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.interruption import interruptible
from django_dbqueue.worker.stuck import announce_stuck
from tests.factories import QUEUE, as_claimed, held
from tests.patience import patience

pytestmark = [pytest.mark.once, pytest.mark.django_db]


@pytest.fixture
def reports() -> Iterator[list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []

    def hear(**what: Any) -> None:
        found.append(what)

    signals.handler_stuck.connect(hear)
    yield found
    signals.handler_stuck.disconnect(hear)


def delivered() -> Delivery:
    def handle(_message: Message) -> None:
        """Never run."""

    consumer = registry.Consumer(QUEUE, handle)
    return Delivery(as_claimed(held()), session_of("default"), consumer, consumer.resolved(), frozenset())


def test_listeners_learn_of_it_once_with_the_place_in_the_code(reports: list[dict[str, Any]]) -> None:
    one, began, may_end = delivered(), threading.Event(), threading.Event()
    one.started_at = time.monotonic() - 7

    def wait_for_the_end() -> None:
        began.set()
        may_end.wait(patience(60))

    thread = threading.Thread(target=interruptible, args=([one], wait_for_the_end))
    thread.start()
    assert began.wait(patience(60))
    announce_stuck(one, TIMEOUT)
    announce_stuck(one, CANCEL)
    may_end.set()
    thread.join(patience(60))
    [what] = reports
    assert (what["sender"], what["queue"], what["message_id"]) == (Message, QUEUE, one.claim.id)
    assert (what["handler"], what["after"]) == (one.name, "its timeout")
    assert what["seconds"] >= 7
    assert "in wait_for_the_end" in what["stack"]


def test_of_one_that_has_just_ended_there_is_no_place(reports: list[dict[str, Any]]) -> None:
    one = delivered()
    one.started_at = time.monotonic()
    announce_stuck(one, TIMEOUT)
    assert [what["stack"] for what in reports] == [""]


def test_of_one_that_was_reclaimed_before_it_began_listeners_learn_nothing(reports: list[dict[str, Any]]) -> None:
    announce_stuck(delivered(), TIMEOUT)
    assert reports == []


def test_no_listener_is_waited_for_while_an_earlier_one_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a list of messages whose listener blocks would be waited for once for each."""
    blocked, heard = threading.Event(), threading.Event()

    def block(*, message_id: int, **_: Any) -> None:
        if message_id == one.claim.id:
            blocked.wait(patience(60))
        else:
            heard.set()

    monkeypatch.setattr("django_dbqueue.worker.stuck.PATIENCE", 0.1)
    one, other = delivered(), delivered()
    one.started_at = other.started_at = time.monotonic()
    signals.handler_stuck.connect(block)
    try:
        announce_stuck(one, TIMEOUT)
        monkeypatch.setattr("django_dbqueue.worker.stuck.PATIENCE", threading.TIMEOUT_MAX)
        announce_stuck(other, TIMEOUT)
        assert heard.wait(patience(60))
    finally:
        blocked.set()
        signals.handler_stuck.disconnect(block)


def test_a_listener_has_a_connection_of_its_own(reports: list[dict[str, Any]]) -> None:
    """The child's own may be in any state, and is that of its worker's row."""
    users: list[Any] = []

    def use(**_: Any) -> None:
        users.append(connections["default"])

    one = delivered()
    one.started_at = time.monotonic()
    signals.handler_stuck.connect(use)
    try:
        announce_stuck(one, TIMEOUT)
    finally:
        signals.handler_stuck.disconnect(use)
    assert len(reports) == 1
    assert users[0] is not connections["default"]


def test_the_listener_of_the_page_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cancel.md").read_text()
    [listener] = [text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "handler_stuck" in text]
    names: dict[str, Any] = {}
    exec(listener, names)
    one = delivered()
    one.started_at = time.monotonic()
    try:
        announce_stuck(one, TIMEOUT)
    finally:
        signals.handler_stuck.disconnect(names["report"])
    [record] = [each for each in caplog.records if each.name == "on_call"]
    assert f"message {one.claim.id} of {QUEUE}: " in record.getMessage()
    assert "did not end after its timeout" in record.getMessage()
