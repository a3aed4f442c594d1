"""A result is shown, compared and logged without a query; what can't be known of it is None, and raises nothing."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.tasks.compat import task_backends
from django_dbqueue.testing import run_consumers

pytestmark = pytest.mark.django_db(transaction=True)


def test_showing_comparing_and_logging_send_no_query(jobs: Any, caplog: pytest.LogCaptureFixture) -> None:
    result, other = jobs.add.enqueue(1, 2), jobs.add.enqueue(1, 2)
    stored = task_backends["default"].get_result(result.id)
    with CaptureQueriesContext(connection) as queries, caplog.at_level(logging.INFO):
        assert "enqueued_at=<not read>" in repr(result)
        assert f"id='{result.id}'" in str(result)
        assert result == stored
        assert result != other
        assert result != "another thing"
        logging.getLogger("shop").info("%s and %r", result, result)
    assert len(queries) == 0
    with pytest.raises(TypeError, match="unhashable"):
        hash(result)
    assert result.enqueued_at == stored.enqueued_at
    with CaptureQueriesContext(connection) as queries:
        assert result.enqueued_at is not None
        assert repr(result.enqueued_at) in repr(result)
    assert len(queries) == 0, "it is read once"


def test_of_what_was_rolled_back_the_time_is_unknown(jobs: Any) -> None:
    with transaction.atomic():
        result, read = jobs.add.enqueue(1, 2), jobs.add.enqueue(3, 4)
        moment = read.enqueued_at
        transaction.set_rollback(True)
    assert (result.enqueued_at, read.enqueued_at) == (None, moment)
    assert result == result
    assert "enqueued_at=None" in repr(result)


def test_what_the_history_has_is_read_there(jobs: Any) -> None:
    result, gone = jobs.add.enqueue(1, 2), jobs.add.enqueue(3, 4)
    created = Message.objects.get(pk=int(result.id)).created_at
    run_consumers("default")
    Message.objects.archive(older_than=0)
    assert result.enqueued_at == created
    ArchivedMessage.objects.all().delete()
    assert gone.enqueued_at is None


def test_in_a_broken_transaction_it_is_unknown_until_that_has_ended(jobs: Any) -> None:
    result = jobs.add.enqueue(1, 2)
    with transaction.atomic():
        transaction.set_rollback(True)
        assert result.enqueued_at is None
    assert result.enqueued_at is not None


def test_async_code_can_show_what_sync_code_has_enqueued(jobs: Any) -> None:
    result = jobs.add.enqueue(1, 2)

    async def show() -> tuple[str, Any]:
        await asyncio.sleep(0)
        return repr(result), result.enqueued_at

    text, moment = async_to_sync(show)()
    assert "enqueued_at=<not read>" in text
    assert moment is None
    assert result.enqueued_at is not None


def test_an_async_task_knows_when_it_was_enqueued(jobs: Any) -> None:
    result = jobs.time_of_enqueueing.enqueue()
    run_consumers("default")
    result.refresh()
    assert result.return_value == str(result.enqueued_at)
