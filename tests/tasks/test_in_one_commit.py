"""A task's result and its ack, and what it wrote with ``transactional=True``: one commit, however it ends (P17)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection

from django_dbqueue.exceptions import LeaseLost
from django_dbqueue.models import Message, Queue, Result
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.statements import moves_sql
from django_dbqueue.testing import run_consumers
from tests.tasks.running import run

pytestmark = pytest.mark.django_db(transaction=True)


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize(
    "statement", ["INSERT INTO django_dbqueue_result", "UPDATE django_dbqueue_message", "DELETE FROM nothing"]
)
def test_a_death_at_any_statement_leaves_all_of_it_or_nothing(jobs: Any, statement: str) -> None:
    begun = False

    def kill(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal begun
        begun = begun or (sql.startswith("INSERT") and "django_dbqueue_queue" in sql)  # what the task itself writes
        if begun and sql.startswith(statement):
            begun = False  # what follows is what the next process does
            raise Killed
        return execute(sql, params, many, context)

    message = Message.objects.get(pk=int(jobs.pause.enqueue("one").id))
    with connection.execute_wrapper(kill), suppress(Killed):
        run_consumers("default", on_error="collect")
    message.refresh_from_db()
    is_done = message.status == "y"
    assert is_done == (statement == "DELETE FROM nothing")
    assert (Result.objects.filter(pk=message.pk).exists(), Queue.objects.filter(name="one").exists()) == (
        is_done,
        is_done,
    )


def test_rows_result_and_ack_are_one_commit(jobs: Any) -> None:
    good, bad = jobs.pause.enqueue("one"), jobs.pause.enqueue("two", fails=True)
    run()
    good.refresh()
    bad.refresh()
    assert good.return_value == "paused one"
    assert bad.status == "READY"
    assert list(Queue.objects.values_list("name", flat=True)) == ["one"]
    assert list(Result.objects.values_list("message_id", flat=True)) == [int(good.id)]


@pytest.mark.parametrize(("name", "outcome"), [("pause", "waiting"), ("add", "lost")])
def test_who_lost_the_claim_leaves_no_result(
    jobs: Any, name: str, outcome: str, lose_the_claim: Callable[[Any], None]
) -> None:
    """Another claim takes the message after the body. In one commit with it that is undone, too, so that it waits."""
    result = jobs.pause.enqueue("one") if name == "pause" else jobs.add.enqueue(1, 2)
    lose_the_claim(result)
    [handled] = run()
    assert handled.outcome == outcome
    assert handled.error is None or isinstance(handled.error, LeaseLost)
    assert not Result.objects.exists()
    assert not Queue.objects.exists()


def test_of_a_batch_only_what_was_acked_has_results(jobs: Any) -> None:
    from django_dbqueue.databases.statement import Kept
    from django_dbqueue.lifecycle.result_rows import keep
    from django_dbqueue.lifecycle.settle_many import settle_claims

    for number in range(5):
        jobs.add.enqueue(number, 1)
    messages = Message.objects.claim(5)
    Message.objects.filter(pk=messages[2].pk).update(claim_token=1)
    session, claims = session_of("default"), [message.claim for message in messages]
    results = {claim.id: Kept("1", "json", 60.0) for claim in claims}
    held = settle_claims(
        session, moves_sql.ack(session.server), claims, then=lambda acked: keep(session, results, acked)
    )
    assert held == {claim for claim in claims if claim != claims[2]}
    assert set(Result.objects.values_list("pk", flat=True)) == {claim.id for claim in held}
