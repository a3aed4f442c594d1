"""The log line of a failure: a death has its traceback, a retry has it where the project wants it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue.consumers import Reject, Retry
from django_dbqueue.models import Message
from django_dbqueue.testing import run_consumers
from tests.factories import QUEUE

pytestmark = pytest.mark.django_db

Consumes = Callable[..., Any]


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[Any]:
    return [record for record in caplog.records if getattr(record, "event", "") == event]


def fails(messages: Any) -> None:
    raise ValueError("broken")


async def fails_later(message: Message) -> None:
    raise ValueError("broken")


@pytest.mark.parametrize("options", [{}, {"batch": 5}, {"transactional": True}, {"batch": 5, "transactional": True}])
def test_a_death_has_its_traceback_and_its_attempt(
    consumes: Consumes, caplog: pytest.LogCaptureFixture, options: dict[str, Any]
) -> None:
    consumes(fails, max_reads=1, **options)
    dying = [Message.objects.enqueue({}, queue=QUEUE) for _ in range(2)]
    run_consumers(QUEUE, on_error="collect")
    died = lines(caplog, "died")
    assert [record.fields["message_id"] for record in died] == [message.pk for message in dying]
    for record in died:
        assert record.levelno == logging.ERROR
        assert record.fields["attempt"] == 1
        assert "in fails\n" in caplog.handler.format(record)
        assert str(record.exc_info[1]) == "broken"


def test_the_death_of_a_coroutines_message_has_it_too(consumes: Consumes, caplog: pytest.LogCaptureFixture) -> None:
    consumes(fails_later, max_reads=1)
    Message.objects.enqueue({}, queue=QUEUE)
    run_consumers(QUEUE, on_error="collect")
    [record] = lines(caplog, "died")
    assert "in fails_later\n" in caplog.handler.format(record)


@pytest.mark.parametrize("setting", ["line", "traceback"])
def test_a_retry_is_one_line_unless_the_project_wants_more(
    consumes: Consumes, caplog: pytest.LogCaptureFixture, setting: str
) -> None:
    consumes(fails, max_reads=3)
    Message.objects.enqueue({}, queue=QUEUE)
    with override_settings(DBQUEUE={"LOG_RETRIES": setting}):
        run_consumers(QUEUE, on_error="collect", with_delayed=True)
    failed = lines(caplog, "failed")
    assert [record.fields["attempt"] for record in failed] == [1, 2]
    for record in failed:
        assert record.levelno == logging.WARNING
        assert bool(record.exc_info) is (setting == "traceback")
        assert ("\n" in caplog.handler.format(record)) is (setting == "traceback")
    [died] = lines(caplog, "died")
    assert died.fields["attempt"] == 3


@pytest.mark.parametrize("decision", [Retry, Reject])
def test_what_a_handler_decides_is_no_error_of_its(
    consumes: Consumes, caplog: pytest.LogCaptureFixture, decision: type[Exception]
) -> None:
    def decide(message: Message) -> None:
        raise decision("not wanted")

    consumes(decide, max_reads=1)
    Message.objects.enqueue({}, queue=QUEUE)
    run_consumers(QUEUE)
    [record] = lines(caplog, "died")
    assert not record.exc_info
