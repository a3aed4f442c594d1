"""What dies, or is rescued, in a stream leaves what it leaves with a worker: a record, a group, a signal, a log line.

Each is asked of two messages that are alike, one of which a worker has and the other a stream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.apps import apps

from django_dbqueue.claims import burial
from django_dbqueue.models import Failure, Message, MessageEvent
from django_dbqueue.signals import message_died
from django_dbqueue.streams.ownership import REQUEUE
from django_dbqueue.streams.stream_release import release_stream
from tests.factories import QUEUE, MessageFactory, claimed, row, stuck
from tests.streams.conftest import SPEC, STREAM, Query, let_leases_end
from tests.streams.test_poison import run_until_idle

pytestmark = pytest.mark.django_db(transaction=True)
GIVING_BACK = replace(SPEC, on_expired=REQUEUE)


@pytest.fixture
def died() -> Iterator[list[dict[str, Any]]]:
    """What the signal told."""
    heard: list[dict[str, Any]] = []

    def hear(*, sender: Any, signal: Any, **fields: Any) -> None:
        assert sender is Message
        fields.pop("using", None)  # a stream knows no alias of Django's
        heard.append(fields)

    message_died.connect(hear)
    yield heard
    message_died.disconnect(hear)


def left_by(message: Message) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the row of a message and its last record, without its ids, times and claims."""
    kept = ("queue", "status", "read_count", "max_reads", "crashes", "error", "live", "conn_id", "worker_id")
    stored = {name: value for name, value in row(message).items() if name in kept}
    last = MessageEvent.objects.filter(message_id=message.pk).latest("pk")
    assert last.failure_id is not None
    group = Failure.objects.get(pk=last.failure_id)
    assert last.claimed_at == row(message)["claimed_at"]
    assert last.conn_id is not None
    return stored, (
        last.kind,
        last.detail,
        last.actor,
        last.exception,
        group.queue,
        group.exception,
        last.read_count,
    )


def errors_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]


@pytest.mark.parametrize(("max_reads", "reads"), [(2, 2), (None, SPEC.max_reads)], ids=["its own", "by the settings"])
def test_a_message_without_reads_is_buried_alike_by_a_claim_and_by_a_stream(
    query: Callable[..., Query],
    died: list[dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
    max_reads: int | None,
    reads: int,
) -> None:
    one = MessageFactory(max_reads=max_reads)
    Message.objects.filter(pk=one.pk).update(read_count=reads)
    assert claimed() == []
    other = MessageFactory(max_reads=max_reads)
    Message.objects.filter(pk=other.pk).update(read_count=reads)
    assert query().claim() is None
    assert left_by(one) == left_by(other)
    assert row(one)["read_count"] == left_by(one)[1][-1] == reads
    assert Failure.objects.get().exception == "ReadsSpent"
    by_claim, by_stream = died
    assert (by_claim.pop("message_id"), by_stream.pop("message_id")) == (one.pk, other.pk)
    assert by_claim == by_stream == {"queue": QUEUE, "error": row(one)["error"]}
    assert errors_of(caplog) == [f"message {each.pk} of {QUEUE} is dead: {row(one)['error']}" for each in (one, other)]


@pytest.mark.parametrize("max_reads", [1, 5], ids=["dead", "due again"])
def test_a_rescue_leaves_the_same_of_a_claim_and_of_a_stream(
    query: Callable[..., Query], died: list[dict[str, Any]], caplog: pytest.LogCaptureFixture, max_reads: int
) -> None:
    one, other = stuck(max_reads=max_reads), MessageFactory(max_reads=max_reads)
    query(spec=GIVING_BACK).next()
    let_leases_end()
    Message.objects.rescue()
    (stored, record), (parked, of_stream) = left_by(one), left_by(other)
    text, of_its = stored.pop("error"), parked.pop("error")
    assert stored == parked
    assert (record[0], *record[2:]) == (of_stream[0], *of_stream[2:])
    assert (record[1], of_stream[1]) == (text, of_its)
    groups = sorted(Failure.objects.values_list("exception", "place"))
    assert groups == [("LeaseOver", ""), ("LeaseOver", f"stream {STREAM}")]
    dead = [(one.pk, text), (other.pk, of_its)] if max_reads == 1 else []
    assert [(each["message_id"], each["error"]) for each in died] == dead
    assert errors_of(caplog) == [f"message {number} of {QUEUE} is dead at attempt 1: {error}" for number, error in dead]


def test_what_fails_alone_in_a_stream_joins_a_group_and_is_reported_once(
    query: Callable[..., Query], died: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    apps.get_app_config("django_dbqueue").ready()  # as some projects and tests do once more
    poison, _fine = MessageFactory.create_batch(2)
    run_until_idle(query, poison.pk, max_reads=3)
    stored, (kind, detail, *_rest) = left_by(poison)
    assert (kind, detail) == ("died", stored["error"])
    group = Failure.objects.get()
    assert (group.queue, group.exception, group.place) == (QUEUE, "StreamFailed", f"stream {STREAM}")
    assert [(each["message_id"], each["error"]) for each in died] == [(poison.pk, stored["error"])]
    assert errors_of(caplog) == [f"message {poison.pk} of {QUEUE} is dead: {stored['error']}"]


def test_a_group_that_a_worker_has_made_is_joined(query: Callable[..., Query]) -> None:
    for _ in range(2):
        spent = MessageFactory(max_reads=1)
        Message.objects.filter(pk=spent.pk).update(read_count=1)
        assert query(patience=0).claim() is None if Failure.objects.exists() else claimed() == []
    assert MessageEvent.objects.filter(failure_id=Failure.objects.get().pk).count() == 2


def test_a_process_without_django_logs_it(
    query: Callable[..., Query], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(burial, "_listeners", [])
    spent = MessageFactory(max_reads=1)
    Message.objects.filter(pk=spent.pk).update(read_count=1)
    assert query().claim() is None
    assert errors_of(caplog) == [f"message {spent.pk} of {QUEUE} is dead: {row(spent)['error']}"]


def test_what_is_released_by_hand_is_no_failure(query: Callable[..., Query], died: list[dict[str, Any]]) -> None:
    MessageFactory()
    one = query()
    one.next()
    one.die()
    assert release_stream(query().connection, STREAM, force=True) == 1
    assert not Failure.objects.exists()
    assert died == []
