"""What a task with ``transactional=True`` wrote, its result and its ack: one commit, however the attempt ends (P17)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.db import connection

from django_dbqueue.models import Message, Queue, Result
from django_dbqueue.testing import run_consumers

pytestmark = pytest.mark.django_db(transaction=True)


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize(
    "statement", ["INSERT INTO django_dbqueue_result", "UPDATE django_dbqueue_message", "DELETE FROM nothing"]
)
def test_a_death_at_any_statement_leaves_all_of_it_or_nothing(jobs: Any, statement: str) -> None:
    begun = False

    def look(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal begun
        begun = begun or (sql.startswith("INSERT") and "django_dbqueue_queue" in sql)  # what the task itself writes
        if begun and sql.startswith(statement):
            begun = False  # what follows is what the next process does
            raise Killed
        return execute(sql, params, many, context)

    message = Message.objects.get(pk=int(jobs.pause.enqueue("one").id))
    with connection.execute_wrapper(look), suppress(Killed):
        run_consumers("default", on_error="collect")
    message.refresh_from_db()
    is_done = message.status == "y"
    assert is_done == (statement == "DELETE FROM nothing")
    assert (Result.objects.filter(pk=message.pk).exists(), Queue.objects.filter(name="one").exists()) == (
        is_done,
        is_done,
    )
