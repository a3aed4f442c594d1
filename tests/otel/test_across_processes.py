"""One trace by its links, from a web request through a task to its child message, in three real processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from django_dbqueue import Envelope
from django_dbqueue.models import Message
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
Spans = list[dict[str, Any]]


def named(spans: Spans, name: str) -> dict[str, Any]:
    [span] = [span for span in spans if span["name"] == name]
    return span


def ids(span: dict[str, Any]) -> tuple[str, str]:
    return span["context"]["trace_id"], span["context"]["span_id"]


def linked(span: dict[str, Any]) -> list[tuple[str, str]]:
    return [(link["context"]["trace_id"], link["context"]["span_id"]) for link in span["links"]]


def is_parent(parent: dict[str, Any], child: dict[str, Any]) -> bool:
    trace_id, span_id = ids(parent)
    return bool(child["parent_id"] == span_id and child["context"]["trace_id"] == trace_id)


def test_a_trace_leads_from_a_web_request_through_a_task_to_its_child_message(
    request_site: Callable[[str], Any], start_worker: Callable[..., Any], spans: Callable[[], Spans]
) -> None:
    request_site("/order")
    worker = start_worker("--queues", "default,traced", "--drain")
    assert worker.ended() == 0, worker.output
    wait_until(lambda: any(span["name"] == "GET /order" for span in spans()), "the web server's spans")
    found = spans()
    request, sent = named(found, "GET /order"), named(found, "enqueue default")
    ran, child = named(found, "process default"), named(found, "enqueue traced")
    handled = named(found, "process traced")
    assert is_parent(request, sent)
    assert linked(ran) == [ids(sent)]
    assert is_parent(ran, child)
    assert linked(handled) == [ids(child)]
    assert ran["parent_id"] is handled["parent_id"] is None
    assert len({span["context"]["trace_id"] for span in (request, ran, handled)}) == 3
    assert {request["pid"], ran["pid"]} == {sent["pid"], child["pid"]}
    assert request["pid"] != ran["pid"]
    assert os.getpid() not in {span["pid"] for span in found}
    assert ran["attributes"]["code.function.name"] == "tests.traced_app.jobs.bill"
    acks = [span for span in found if span["name"] in {"ack default", "ack traced", "ack"}]
    assert {link for ack in acks for link in linked(ack)} == {ids(ran), ids(handled)}
    [note] = worker.notes("begin")
    assert note["baggage"] == {"customer": "17"}, "which the web request had set"


def test_with_trace_as_parent_all_of_it_is_one_trace(
    request_site: Callable[[str], Any],
    start_worker: Callable[..., Any],
    spans: Callable[[], Spans],
) -> None:
    request_site("/order")
    settings = json.dumps({"TRACE_AS_PARENT": True})
    worker = start_worker("--queues", "default,traced", "--drain", DBQUEUE_TEST_SETTINGS=settings)
    assert worker.ended() == 0, worker.output
    wait_until(lambda: any(span["name"] == "GET /order" for span in spans()), "the web server's spans")
    found = spans()
    names = ("GET /order", "enqueue default", "process default", "enqueue traced", "process traced")
    line = [named(found, name) for name in names]
    assert all(is_parent(parent, child) for parent, child in pairwise(line))
    assert linked(line[2]) == [ids(line[1])]


def test_each_attempt_of_a_failing_message_links_to_its_creation_and_has_why_it_failed(
    request_site: Callable[[str], Any], start_worker: Callable[..., Any], spans: Callable[[], Spans]
) -> None:
    trace_id, span_id = f"{7:032x}", f"{8:016x}"
    headers = {"traceparent": f"00-{trace_id}-{span_id}-01"}
    message = Message.objects.enqueue({"do": "fail", "text": "as told"}, queue="traced", headers=headers)
    worker = start_worker("--queues", "traced", "--drain", "--log-format", "json")
    assert worker.ended() == 0, worker.output
    first, second = (span for span in spans() if span["name"] == "process traced")
    for span in (first, second):
        assert linked(span) == [(f"0x{trace_id}", f"0x{span_id}")]
        assert span["attributes"]["error.type"] == "ValueError"
        assert span["status"] == {"status_code": "ERROR", "description": "ValueError: as told"}
        assert span["attributes"]["messaging.message.id"] == str(message.pk)
    assert "dbqueue.message.reads" not in first["attributes"]
    assert second["attributes"]["dbqueue.message.reads"] == 2
    settled = [span for span in spans() if span["name"] == "nack traced"]
    assert [is_parent(run, nack) for run, nack in zip((first, second), settled, strict=True)] == [True, True]
    lines = [json.loads(line) for line in worker.output.splitlines()]
    by_event = {line["event"]: line for line in lines}
    assert by_event["failed"]["trace_id"] == first["context"]["trace_id"].removeprefix("0x")
    assert by_event["died"]["trace_id"] == second["context"]["trace_id"].removeprefix("0x")
    [line_of_it, _] = [line for line in lines if line["text"] == f"the handler of {message.pk} says so"]
    assert line_of_it["trace_id"] == first["context"]["trace_id"].removeprefix("0x")
    assert line_of_it["span_id"] == first["context"]["span_id"].removeprefix("0x")
    assert "trace_id" not in by_event["ended"]


def test_coroutines_and_lists_are_traced_too(start_worker: Callable[..., Any], spans: Callable[[], Spans]) -> None:
    parts = [f"00-{number:032x}-{number:016x}-01" for number in (1, 2, 3)]
    listed = [Message.objects.enqueue({}, queue="traced-list", headers={"traceparent": part}).pk for part in parts]
    Message.objects.enqueue({}, queue="traced-async")
    worker = start_worker("--queues", "traced,traced-async,traced-list", "--drain")
    assert worker.ended() == 0, worker.output
    found = spans()
    assert is_parent(named(found, "process traced-async"), named(found, "enqueue traced"))
    together = named(found, "process traced-list")
    assert together["attributes"]["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in together["attributes"]
    assert linked(together) == [(f"0x{number:032x}", f"0x{number:016x}") for number in (1, 2, 3)]
    assert [link["attributes"]["messaging.message.id"] for link in together["links"]] == [str(pk) for pk in listed]


def test_messages_of_groups_are_traced_on_each_way_through_a_worker(
    start_worker: Callable[..., Any], spans: Callable[[], Spans]
) -> None:
    options = {"traced": {"group_batch": 3}, "traced-async": {"group_limit": 2}, "traced-list": {"group_limit": 3}}
    for queue in options:
        Message.objects.enqueue_many([Envelope({"do": "ok"}, group="customer 17")] * 3, queue=queue)
    settings = json.dumps({"QUEUES": options})
    worker = start_worker("--queues", ",".join(options), "--drain", DBQUEUE_TEST_SETTINGS=settings)
    assert worker.ended() == 0, worker.output
    found = spans()
    for queue in ("traced", "traced-async"):
        runs = [span for span in found if span["name"] == f"process {queue}"]
        own = [span for span in runs if "dbqueue.message.group" in span["attributes"]]
        assert [span["attributes"]["dbqueue.message.group"] for span in own] == ["customer 17"] * 3, queue
        assert len({span["attributes"]["messaging.message.id"] for span in own}) == 3
        acks = [span for span in found if span["name"] in {f"ack {queue}", "ack"}]
        assert {ids(run) for run in runs} <= {link for ack in acks for link in linked(ack)}
    lists = [span for span in found if span["name"] == "process traced-list"]
    assert sum(span["attributes"]["messaging.batch.message_count"] for span in lists) == 3


@pytest.mark.parametrize("queue", ["traced", "traced-async", "traced-list"])
def test_what_waits_for_the_rate_of_its_group_is_no_run(
    queue: str, start_worker: Callable[..., Any], spans: Callable[[], Spans]
) -> None:
    settings = json.dumps({"QUEUES": {queue: {"group_rate": "15/m", "group_limit": 3}}})
    worker_settings = {"DBQUEUE_TEST_SETTINGS": settings}
    Message.objects.enqueue_many([Envelope({"do": "ok"}, group="a")] * 2, queue=queue)
    worker = start_worker("--queues", queue, **worker_settings)
    wait_until(lambda: Message.objects.done(queue).count() == 2, "both to be done")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    runs = [span for span in spans() if span["name"] == f"process {queue}"]
    assert sum(span["attributes"].get("messaging.batch.message_count", 1) for span in runs) == 2
    for run in runs:
        assert run["status"]["status_code"] == "UNSET"
        took = datetime.fromisoformat(run["end_time"]) - datetime.fromisoformat(run["start_time"])
        assert took < timedelta(seconds=3), "the wait between two starts is 4 s, and belongs to none"


def test_a_worker_that_is_stopped_sends_the_spans_that_it_has(
    start_worker: Callable[..., Any], spans: Callable[[], Spans]
) -> None:
    worker = start_worker("--queues", "traced", "--processes", "2")
    Message.objects.enqueue_many([{"do": "ok"}] * 40, queue="traced")
    wait_until(lambda: Message.objects.done("traced").count() == 40, "all to be done")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert sum(span["name"] == "process traced" for span in spans()) == 40
