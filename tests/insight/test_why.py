"""Why is it stuck? Each answer by what stands in the database, and its evidence."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.consumers import registry as consumer_registry
from django_dbqueue.databases import server_of
from django_dbqueue.insight.why import MOST_COUNTED, Why, why
from django_dbqueue.models import Message, Queue, Worker
from django_dbqueue.models.fields import DbNow, clock
from django_dbqueue.sessions.django_session import DjangoSession
from tests.factories import QUEUE, claim_one, dead, done, held, let_pass, rows, stuck, waiting, written_by_sql

pytestmark = pytest.mark.django_db
LONG_AGO = DbNow() - timedelta(seconds=90)


def ask(message: Message, *, has_consumer: bool | None = True) -> Why:
    stored = Message.objects.get(pk=message.pk)
    return why(stored, now=clock("default"), has_consumer=lambda _queue: has_consumer)


def worker(**columns: Any) -> Worker:
    number = secrets.randbits(60)
    fields = {"host": "box", "pid": 17, "queues": QUEUE, "threads": 2, "held": 2} | columns
    return Worker.objects.create(id=number, **fields)


def held_by(owner: Worker, **options: Any) -> Message:
    message = held(**options)
    Message.objects.filter(pk=message.pk).update(worker_id=owner.pk, conn_id=owner.conn_id)
    return message


# Waiting


def test_it_waits_for_its_time() -> None:
    answer = ask(waiting(delay=51.5 * 3_600))
    assert answer.code == "not_due"
    assert "due in 2 d 3 h" in answer.text
    assert answer.verbs == ("due-now", "reject", "drop")


def test_it_waits_between_two_tries() -> None:
    message = held()
    message.nack(delay=60, error="ConnectionError: refused")
    answer = ask(message)
    assert (answer.code, answer.error) == ("not_due", "ConnectionError: refused")
    assert "before the next attempt" in answer.evidence[0]


def test_its_queue_is_paused_by_somebody_for_a_reason() -> None:
    worker()
    message = waiting()
    Queue.objects.pause(QUEUE, by="ann", reason="the bank is down")
    answer = ask(message)
    assert answer.code == "paused"
    assert answer.verbs[0] == "resume"
    [evidence] = answer.evidence
    assert "by ann: the bank is down" in evidence
    delayed = ask(waiting(delay=60))
    assert delayed.code == "not_due"
    assert "by ann: the bank is down" in delayed.evidence[0]
    assert "resume" in delayed.verbs


def test_no_worker_serves_its_queue() -> None:
    worker(queues=f"other,{QUEUE}-not")
    answer = ask(waiting())
    assert answer.code == "no_worker"
    assert f"run_queue_worker --queues {QUEUE}" in answer.advice


def test_no_consumer_is_registered_for_its_queue() -> None:
    message = waiting()
    answer = ask(message, has_consumer=False)
    assert answer.code == "no_consumer"
    assert answer.text.endswith("so no worker can serve it. Did you mean 'test'?"), "which has one"
    assert f'@consumer("{QUEUE}")' in answer.advice
    assert ask(message, has_consumer=None).code == "no_worker", "what isn't known isn't said"
    worker()
    assert ask(message, has_consumer=False).code == "next", "whoever serves it has one"


def test_the_workers_of_its_queue_have_stopped_their_heartbeats() -> None:
    worker(beat_at=LONG_AGO)
    answer = ask(waiting())
    assert answer.code == "workers_silent"
    assert "box:17" in answer.evidence[0]


def test_workers_serve_its_queue_and_are_busy_with_others_before_it() -> None:
    worker(queues=f"a,{QUEUE}")
    first, second = waiting(), waiting()
    last = waiting(priority=-1)
    waiting(delay=60, priority=9)
    waiting(queue="other", priority=9)
    let_pass(second, 10)
    answer = ask(last)
    assert answer.code == "queued"
    assert "2 messages of its queue are ahead of it" in answer.text
    assert "box:17 serves the queue: 2 held by 2 threads" in answer.evidence[0]
    assert "1 message of its queue is ahead of it" in ask(first).text
    assert ask(second).code == "next"


def test_messages_that_are_due_at_the_same_moment_are_counted_by_their_ids() -> None:
    worker()
    Message.objects.enqueue_many(range(5), queue=QUEUE)
    Message.objects.update(available_at=DbNow() - timedelta(seconds=5))
    moment = Message.objects.earliest("id").available_at
    Message.objects.update(available_at=moment)
    ids = list(Message.objects.order_by("id").values_list("id", flat=True))
    answers = [ask(Message.objects.get(pk=number)) for number in ids]
    assert [answer.code for answer in answers] == ["next", *["queued"] * 4]
    assert "4 messages of its queue are ahead of it" in answers[-1].text


def test_the_count_of_those_before_it_ends_at_a_cap() -> None:
    worker()
    Message.objects.enqueue_many(range(MOST_COUNTED + 5), queue=QUEUE)
    last = waiting(priority=-1)
    assert f"{MOST_COUNTED:,}+ messages" in ask(last).text


# Running


def test_it_runs_and_its_owner_lives() -> None:
    answer = ask(held_by(worker()))
    assert answer.code == "running"
    assert "box:17" in answer.text
    assert "beat" in answer.evidence[0]
    assert "Its lease expires in" in answer.evidence[-1]


def test_its_owner_has_missed_its_beats_and_more_cannot_be_known() -> None:
    answer = ask(held_by(worker(beat_at=LONG_AGO)))
    assert answer.code == "owner_silent"
    assert answer.verbs[0] == "requeue"


def test_its_worker_has_no_row_any_more() -> None:
    message = held()
    Message.objects.filter(pk=message.pk).update(worker_id=4711)
    answer = ask(message)
    assert answer.code == "owner_gone"
    assert "no longer has a row" in answer.evidence[0]


def test_its_lease_has_expired_and_somebody_will_rescue_it_or_not() -> None:
    message = stuck()
    let_pass(message, 60)
    answer = ask(message)
    assert answer.code == "lease_over"
    assert "No worker serves the queue" in answer.advice
    assert any("Its lease expired" in line for line in answer.evidence)
    worker()
    assert "automatically" in ask(message).advice


if settings.TEST_DATABASE == "sqlite":

    def test_where_there_are_no_sessions_it_shows_that_it_cannot_know() -> None:
        assert any("can't be seen from here" in line for line in ask(held()).evidence)

else:

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("by_lock", [True, False])
    def test_its_owner_is_gone_by_its_session(other_connection: BaseDatabaseWrapper, *, by_lock: bool) -> None:
        number = secrets.randbits(60)
        server = server_of(connection)

        def of_the_other(statement: Any) -> Any:
            with other_connection.cursor() as cursor:
                cursor.execute(*statement)
                return cursor.fetchone()

        conn_id, here = of_the_other(server.sessions.me())
        lock = number if by_lock else None
        if by_lock:
            of_the_other(server.sessions.take_lock(number))
        owner = worker(conn_id=conn_id, server=str(here), session_lock=lock)
        message = held_by(owner)
        answer = ask(message)
        assert answer.code == "running"
        words = f"holds its named lock {number}" if by_lock else "is in the server's list"
        assert words in answer.evidence[1]
        other_connection.close()
        Worker.objects.filter(pk=owner.pk).update(beat_at=LONG_AGO)
        answers = _until_gone(lambda: ask(message))
        assert "is free" in answers.evidence[1] if by_lock else "is not in" in answers.evidence[1]

    def _until_gone(question: Callable[[], Why]) -> Why:
        """The server notices the end of a session a moment after it."""
        for _ in range(10_000):
            if (answer := question()).code == "owner_gone":
                return answer
            assert answer.code == "owner_silent"
        raise AssertionError("the session never went")

    def test_a_claim_by_a_program_that_is_no_worker_names_its_session() -> None:
        [(conn_id, _server)] = DjangoSession("default").fetch(server_of(connection).sessions.me())
        answer = ask(held())
        assert answer.code == "running"
        assert f"session {conn_id}" in answer.text
        assert any(f"Its session {conn_id} is in the server's list" in line for line in answer.evidence)


# Dead and done


def test_its_reads_are_spent() -> None:
    message = held(max_reads=1)
    message.nack(error="ValueError: no")
    answer = ask(message)
    assert (answer.code, answer.error) == ("reads_spent", "ValueError: no")
    assert "1 of 1 deliveries" in answer.text
    assert answer.verbs[0] == "requeue"


def test_it_was_rejected_by_its_consumer_or_by_a_person() -> None:
    assert "its consumer rejected it" in ask(dead()).text
    message = waiting()
    Message.objects.filter(pk=message.pk).reject_waiting("no", by="ann")
    answer = ask(message)
    assert answer.code == "rejected"
    assert "ann rejected it" in answer.text
    Message.objects.filter(pk=message.pk).send_again(by="bob")
    assert "ann rejected it" in ask(message).text, "what came later is no death"


def test_it_was_cancelled_whatever_is_left_of_its_reads() -> None:
    message = held(max_reads=1)
    Message.objects.cancel(message.pk, reason="no", by="ann")
    answer = ask(message)
    assert (answer.code, answer.text) == ("cancelled", "Dead: ann cancelled it.")


def test_it_cannot_be_decoded() -> None:
    message = written_by_sql("{", read_count=0)
    claimed = claim_one()
    assert claimed == message
    claimed.reject("django_dbqueue.exceptions.UndecodableMessage: the body is no JSON\n\nTraceback")
    answer = ask(message)
    assert answer.code == "undecodable"
    assert answer.verbs[0] == "drop"


def test_it_is_done_or_was_dropped() -> None:
    message = done()
    assert ask(message).code == "done"
    message = waiting()
    Message.objects.filter(pk=message.pk).drop_all("old")
    assert (ask(message).code, ask(message).error) == ("dropped", "old")


# What it may not do


def test_consumers_are_sought_in_the_project(registry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_registry, "autodiscover", lambda: registry.update(found=object()))
    assert consumer_registry.has_consumer("found") is True
    assert consumer_registry.has_consumer("other") is False

    def broken() -> None:
        raise ImportError("no such module")

    monkeypatch.setattr(consumer_registry, "autodiscover", broken)
    assert consumer_registry.has_consumer("found") is True
    assert consumer_registry.has_consumer("other") is None


def test_asking_changes_nothing() -> None:
    messages = [waiting(), waiting(delay=9), held(queue="a"), stuck(queue="b"), dead(queue="c"), done(queue="d")]
    before = rows()
    for message in messages:
        assert ask(message).text
    assert rows() == before


def test_the_moment_is_the_databases() -> None:
    message = waiting(delay=60)
    later: datetime = clock("default") + timedelta(seconds=61)
    stored = Message.objects.get(pk=message.pk)
    assert why(stored, now=later, has_consumer=lambda _queue: True).code == "no_worker"
