"""Article 001's story with our words: n, run and y; whose it is; its two schemes for dead consumers; its transaction.

Its page is ``docs/systems/001-status-enum-and-guardian.md``. Where its own statements fail is in
``test_weaknesses_001.py``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue import LeaseLost
from django_dbqueue.databases import server_of
from django_dbqueue.models import Message, Queue, Worker
from django_dbqueue.sessions.django_session import DjangoSession
from tests.concurrency.steps import aside
from tests.factories import let_end, row
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
BUSINESS = "biz-1000"


def my_session() -> int:
    """What the article calls CONNECTION_ID()."""
    server = server_of(connection)
    if not server.session_id:
        return os.getpid()
    return int(DjangoSession("default").fetch(server.sessions.me())[0][0])


def letters_and_owner(message: Message) -> tuple[str, int | None]:
    stored = row(message)
    return stored["status"], stored["conn_id"]


def kill(worker: Any) -> None:
    """End the supervisor and its children, as a machine's out-of-memory killer might."""
    worker.signal_all(signal.SIGKILL)
    worker.ended()


def test_a_message_goes_from_n_by_run_to_y_and_shows_whose_it_is() -> None:
    message = Message.objects.enqueue("test", queue=BUSINESS)
    assert letters_and_owner(message) == ("n", None)

    [claimed] = Message.objects.claim(10, queue=BUSINESS)
    assert letters_and_owner(message) == ("run", my_session())
    assert claimed.payload == "test"

    claimed.ack()
    assert row(message)["status"] == "y"


def test_while_one_consumer_works_the_table_is_open_to_the_others() -> None:
    for text in ("first", "second"):
        Message.objects.enqueue(text, queue=BUSINESS)
    [first] = Message.objects.claim(1, queue=BUSINESS)
    with aside() as other:
        [second] = other.do(lambda: Message.objects.claim(10, queue=BUSINESS))
    assert (first.payload, second.payload) == ("first", "second")


def test_scheme_one_a_guardian_process_resets_what_a_killed_consumer_held(
    start_worker: Callable[..., Any], start_guardian: Callable[..., Any], tmp_path: Path
) -> None:
    """On SQLite, which has no connections to look at, by the end of a short lease."""
    queue = "short-lease" if settings.TEST_DATABASE == "sqlite" else "test"
    message = Message.objects.enqueue({"do": "until", "file": str(tmp_path / "gate")}, queue=queue)
    guardian = start_guardian("--watch")
    guardian.wait_for_output("Watching")
    arguments = () if settings.TEST_DATABASE == "sqlite" else ("--lease", "600")
    consumer = start_worker(*arguments, "--queues", queue)
    consumer.wait_for("begin", message.pk)
    owner = Worker.objects.get()
    assert letters_and_owner(message) == ("run", owner.conn_id)
    kill(consumer)
    wait_until(lambda: letters_and_owner(message) == ("n", None), "the guardian to reset the message")
    guardian.wait_for_output(f"1 message of {queue} rescued")
    sign = "lease over" if settings.TEST_DATABASE == "sqlite" else "session gone"
    assert sign in guardian.output

    (tmp_path / "gate").touch()
    another = start_worker("--queues", queue)
    another.wait_for("end", message.pk)
    wait_until(lambda: letters_and_owner(message)[0] == "y", "the second delivery to be acked")
    assert row(message)["read_count"] == 2


if settings.TEST_DATABASE != "sqlite":

    def test_scheme_one_by_the_list_of_connections_as_the_article_has_it(
        start_worker: Callable[..., Any], start_guardian: Callable[..., Any], tmp_path: Path
    ) -> None:
        without_locks = {"DJANGO_SETTINGS_MODULE": "tests.process.without_locks"}
        message = Message.objects.enqueue({"do": "until", "file": str(tmp_path / "gate")}, queue="test")
        guardian = start_guardian("--watch")
        consumer = start_worker("--lease", "600", "--queues", "test", **without_locks)
        consumer.wait_for("begin", message.pk)
        owner = Worker.objects.get()
        assert letters_and_owner(message) == ("run", owner.conn_id)
        kill(consumer)
        guardian.wait_for_output(f"its session {owner.conn_id} is not in the server's list")
        assert letters_and_owner(message) == ("n", None)


def test_scheme_two_the_claim_of_a_living_consumer_takes_over_with_no_guardian_running(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    message = Message.objects.enqueue({"do": "until", "file": str(tmp_path / "gate")}, queue="short-lease")
    consumer = start_worker("--queues", "short-lease")
    consumer.wait_for("begin", message.pk)
    kill(consumer)
    assert letters_and_owner(message)[0] == "run", "nobody is there to reset it"
    [claimed] = wait_until(lambda: Message.objects.claim(1, queue="short-lease"), "the claim to take it over")
    assert claimed.pk == message.pk
    assert letters_and_owner(message) == ("run", my_session())
    assert (row(message)["read_count"], row(message)["crashes"]) == (2, 1)
    claimed.ack()
    assert row(message)["status"] == "y"


def test_part_four_work_and_finish_are_one_transaction_and_who_lost_the_message_has_done_nothing() -> None:
    message = Message.objects.enqueue("test", queue=BUSINESS)
    [late] = Message.objects.claim(1, queue=BUSINESS)
    let_end(late)
    [prompt] = Message.objects.claim(1, queue=BUSINESS)
    with prompt.transaction():
        Queue.objects.create(name="the-work")
    with pytest.raises(LeaseLost), late.transaction():
        Queue.objects.create(name="the-work-again")
    assert row(message)["status"] == "y"
    assert list(Queue.objects.values_list("name", flat=True)) == ["the-work"]
