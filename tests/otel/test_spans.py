"""What each operation leaves as spans and measurements, in this process and in memory."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, connections
from django.test import override_settings
from opentelemetry import propagate, trace
from opentelemetry.context import attach, detach
from opentelemetry.metrics import CallbackOptions
from opentelemetry.trace import SpanKind, StatusCode

from django_dbqueue import Envelope, LeaseLost
from django_dbqueue.contrib.otel.conventions import operation_on
from django_dbqueue.contrib.otel.measures import Tally
from django_dbqueue.contrib.otel.trace_filter import TraceFilter
from django_dbqueue.envelope import MAX_HEADER_BYTES
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.models import Message

if TYPE_CHECKING:
    from tests.otel.memory import Memory

pytestmark = pytest.mark.django_db(transaction=True)


def shared(operation: str, kind: str, queue: str = "q") -> dict[str, Any]:
    configured = connection.settings_dict
    where = {"server.address": configured["HOST"], "server.port": int(configured["PORT"])} if configured["HOST"] else {}
    return {
        "messaging.system": "django_dbqueue",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": queue,
        **where,
    }


def test_an_enqueue_is_a_producers_span_whose_context_the_message_carries(memory: Memory) -> None:
    with memory.tracing.get_tracer("test").start_as_current_span("request") as request:
        message = Message.objects.enqueue({"n": 1}, queue="q", headers={"mine": 1})
    span = memory.span("enqueue q")
    assert span.kind is SpanKind.PRODUCER
    assert span.attributes == {**shared("enqueue", "send"), "messaging.message.id": str(message.pk)}
    assert span.parent is not None
    assert span.parent.span_id == request.get_span_context().span_id
    carried = trace.get_current_span(propagate.extract(message.headers)).get_span_context()
    assert (carried.trace_id, carried.span_id) == (span.context.trace_id, span.context.span_id)
    assert message.headers["mine"] == 1
    assert message.headers.keys() == {"mine", "traceparent"}


def test_a_context_is_carried_with_all_that_an_envelope_has(memory: Memory) -> None:
    given = Envelope(
        {"n": 1}, "k", 60.0, None, 7, 3, 45.0, {"mine": 1}, group="customer 17", once="charge-17", once_for=3600
    )
    Message.objects.enqueue_many([given], queue="q")
    [message] = Message.objects.all()
    assert message.headers.keys() == {"mine", "traceparent"}
    assert (message.payload, message.key, message.group) == (given.payload, given.key, given.group)
    assert (message.priority, message.max_reads, message.lease_seconds) == (7, 3, 45.0)
    again = Message.objects.enqueue(given.payload, queue="q", group="customer 17", once="charge-17")
    assert (again.pk, again.outcome) == (message.pk, "ignored")
    second = memory.spans("enqueue q")[1].attributes or {}
    assert second["dbqueue.enqueue.outcome"] == "ignored"


def test_a_group_is_named_where_one_message_or_each_of_several_is(memory: Memory) -> None:
    Message.objects.enqueue({}, queue="q", group="customer 17")
    Message.objects.enqueue({}, queue="q")
    sent = [span.attributes or {} for span in memory.spans("enqueue q")]
    assert [each.get("dbqueue.message.group") for each in sent] == ["customer 17", None]
    Message.objects.claim(2, queue="q")
    links = [link.attributes or {} for link in memory.span("claim q").links]
    assert {each.get("dbqueue.message.group") for each in links} == {"customer 17", None}


@override_settings(DBQUEUE={"QUEUES": {"q": {"group": "*"}}})
def test_a_queue_that_is_one_group_names_none(memory: Memory) -> None:
    Message.objects.enqueue({}, queue="q")
    [message] = Message.objects.claim(1, queue="q")
    assert message.group == "*"
    [link] = memory.span("claim q").links
    assert link.attributes == {"messaging.message.id": str(message.pk)}


def test_a_creation_context_that_the_sender_gave_stays_and_is_linked(memory: Memory) -> None:
    headers = {"traceparent": f"00-{1:032x}-{2:016x}-01"}
    message = Message.objects.enqueue({}, queue="q", headers=headers)
    assert message.headers == headers
    [link] = memory.span("enqueue q").links
    assert (link.context.trace_id, link.context.span_id) == (1, 2)


def test_a_refused_enqueue_is_an_error_with_its_class(memory: Memory) -> None:
    with pytest.raises(InvalidMessage):
        Message.objects.enqueue({"n": float("nan")}, queue="q")
    span = memory.span("enqueue q")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "InvalidMessage"
    assert not Message.objects.exists()
    for wrong in ({"queue": 7}, {"queue": ["q"]}, {"queue": "q", "headers": ["h"]}):
        with pytest.raises(InvalidMessage):
            Message.objects.enqueue({}, **wrong)  # type: ignore[arg-type]


def test_headers_that_leave_no_room_for_a_context_are_sent_without_it(memory: Memory) -> None:
    most = {"text": "x" * (MAX_HEADER_BYTES - 11)}
    assert Message.objects.enqueue({}, queue="q", headers=most).headers == most
    odd = {"text": "\u0001" * 2_720}
    assert Message.objects.enqueue({}, queue="q", headers=odd).headers == odd


def test_a_key_in_use_shows_what_became_of_it_and_an_equal_update_changes_nothing(memory: Memory) -> None:
    first = Message.objects.enqueue({}, queue="q", key="k")
    again = Message.objects.enqueue({}, queue="q", key="k", on_conflict="update")
    other = Message.objects.enqueue({}, queue="q", key="k", on_conflict="update", headers={"mine": 1})
    assert [again.outcome, other.outcome] == ["ignored", "updated"]
    assert again.headers == first.headers, "which differ from what was sent by the trace alone"
    outcomes = [(span.attributes or {}).get("dbqueue.enqueue.outcome") for span in memory.spans("enqueue q")]
    assert outcomes == [None, "ignored", "updated"]


def test_an_enqueue_of_many_is_one_span_and_each_message_carries_its_context(memory: Memory) -> None:
    Message.objects.enqueue_many([{"n": 1}, Envelope({"n": 2}, headers={"mine": 1})], queue="q")
    Message.objects.enqueue_many((n for n in range(3)), queue="lazy")
    span = memory.span("enqueue q")
    assert span.attributes == {**shared("enqueue", "send"), "messaging.batch.message_count": 2}
    for message in Message.objects.in_queue("q"):
        assert f"{span.context.span_id:016x}" in message.headers["traceparent"]
    assert (memory.span("enqueue lazy").attributes or {})["messaging.batch.message_count"] == 3
    with pytest.raises(InvalidMessage):
        Message.objects.enqueue_many([1, float("nan")], queue="wrong")
    assert (memory.span("enqueue wrong").attributes or {})["error.type"] == "InvalidMessage"


def test_a_replay_has_a_context_of_its_own_and_links_to_the_originals(memory: Memory) -> None:
    message = Message.objects.enqueue({}, queue="q")
    Message.objects.filter(pk=message.pk).send_again()
    first, second = memory.spans("enqueue q")
    [link] = second.links
    assert link.context.span_id == first.context.span_id
    replay = Message.objects.latest("pk")
    assert f"{second.context.span_id:016x}" in replay.headers["traceparent"]


def test_a_claim_is_a_clients_span_that_links_to_each_creation_and_an_empty_one_leaves_none(memory: Memory) -> None:
    assert Message.objects.claim(2, queue="q") == []
    sent = [Message.objects.enqueue({}, queue="q") for _ in range(2)]
    Message.objects.claim(2, queue="q")
    span = memory.span("claim q")
    assert span.kind is SpanKind.CLIENT
    assert span.attributes == {**shared("claim", "receive"), "messaging.batch.message_count": 2}
    creations = [each.context.span_id for each in memory.spans("enqueue q")]
    assert [link.context.span_id for link in span.links] == creations
    ids = [(link.attributes or {})["messaging.message.id"] for link in span.links]
    assert ids == [str(message.pk) for message in sent]


def test_each_settlement_is_a_clients_span_and_a_lost_claim_is_its_error(memory: Memory) -> None:
    for _ in range(4):
        Message.objects.enqueue({}, queue="q")
    first, second, *others = Message.objects.claim(4, queue="q")
    with memory.tracing.get_tracer("test").start_as_current_span("work") as work:
        first.ack()
        second.nack(error="no")
    assert Message.objects.ack(others) == []
    with pytest.raises(LeaseLost):
        first.reject()
    one, many = memory.spans("ack q")
    assert one.attributes == {**shared("ack", "settle"), "messaging.message.id": str(first.pk)}
    assert many.attributes == {**shared("ack", "settle"), "messaging.batch.message_count": 2}
    assert one.parent is not None
    assert one.parent.span_id == work.get_span_context().span_id
    assert memory.span("nack q").kind is SpanKind.CLIENT
    lost = memory.span("reject q")
    assert (lost.attributes or {})["error.type"] == "LeaseLost"
    assert lost.status.status_code is StatusCode.ERROR


def test_a_longer_lease_and_a_settlement_of_nothing_are_no_settlements(memory: Memory) -> None:
    Message.objects.enqueue({}, queue="q")
    [message] = Message.objects.claim(queue="q")
    message.extend(60)
    Message.objects.extend([message])
    assert Message.objects.ack([]) == []
    assert memory.names() == ["enqueue q", "claim q"]


def test_what_is_sent_and_claimed_is_measured_by_the_conventions(memory: Memory) -> None:
    Message.objects.enqueue({}, queue="q")
    Message.objects.enqueue_many([1, 2], queue="q")
    with pytest.raises(InvalidMessage):
        Message.objects.enqueue({"n": float("nan")}, queue="q")
    claimed = Message.objects.claim(3, queue="q")
    Message.objects.ack(claimed)
    sent = {
        point.attributes.get("error.type"): point.value for point in memory.points("messaging.client.sent.messages")
    }
    assert sent == {None: 3, "InvalidMessage": 1}
    [consumed] = memory.points("messaging.client.consumed.messages")
    assert (consumed.value, dict(consumed.attributes)) == (3, shared("claim", "receive"))
    durations = memory.points("messaging.client.operation.duration")
    names = sorted((point.attributes["messaging.operation.name"], point.count) for point in durations)
    assert names == [("ack", 1), ("claim", 1), ("enqueue", 1), ("enqueue", 2)]
    assert list(durations[0].explicit_bounds) == [
        0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
    ]  # fmt: skip


def test_what_is_sent_to_two_databases_is_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, alias in enumerate(("here", "there"), start=1):
        place = {"HOST": f"{alias}.invalid", "PORT": str(number)}
        monkeypatch.setitem(connections.settings, alias, connections.settings["default"] | place)
    tally = Tally()
    for number, alias, error in ((3, "here", None), (2, "there", None), (1, "here", None), (1, "there", "LeaseLost")):
        tally.add(number, operation_on("q", "enqueue", "send", alias), error)
        operation_on.cache_clear()  # as when there are thousands of queues
        del connections[alias]
    seen = {
        (found["server.address"], found["server.port"], found.get("error.type")): point.value
        for point in tally.observe(CallbackOptions())
        if (found := dict(point.attributes or {})).items() >= {"messaging.destination.name": "q"}.items()
    }
    assert seen == {("here.invalid", 1, None): 4, ("there.invalid", 2, None): 2, ("there.invalid", 2, "LeaseLost"): 1}


def test_the_opt_in_for_stable_conventions_changes_no_name(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """We have never emitted those of 1.24, so there is nothing that an opt-in could switch off."""
    names = []
    for wish in ("", "messaging", "messaging/dup,http"):
        monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", wish)
        operation_on.cache_clear()
        Message.objects.enqueue({}, queue="q")
        names.append(set(memory.spans("enqueue q")[-1].attributes or {}))
    assert names[0] == names[1] == names[2] == {*shared("enqueue", "send"), "messaging.message.id"}


def test_log_records_carry_the_ids_of_the_span_they_are_written_in(memory: Memory) -> None:
    def filtered() -> logging.LogRecord:
        record = logging.LogRecord("n", logging.INFO, "f", 1, "text", (), None)
        assert TraceFilter().filter(record)
        return record

    assert (filtered().trace_id, filtered().span_id) == ("", "")  # type: ignore[attr-defined]
    with memory.tracing.get_tracer("test").start_as_current_span("work") as span:
        record = filtered()
    context = span.get_span_context()
    assert record.trace_id == f"{context.trace_id:032x}"  # type: ignore[attr-defined]
    assert record.span_id == f"{context.span_id:016x}"  # type: ignore[attr-defined]


def test_a_sampled_out_trace_is_carried_all_the_same(memory: Memory) -> None:
    context = trace.set_span_in_context(
        trace.NonRecordingSpan(trace.SpanContext(5, 6, is_remote=True, trace_flags=trace.TraceFlags(0)))
    )
    token = attach(context)
    try:
        message = Message.objects.enqueue({}, queue="q")
    finally:
        detach(token)
    assert memory.spans("enqueue q") == []
    assert message.headers["traceparent"].startswith(f"00-{5:032x}-")
    assert message.headers["traceparent"].endswith("-00")
