"""A shop as somebody on call meets it: each state, errors with tracebacks, and names as long as they are in life."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_dbqueue import flow
from django_dbqueue.insight.histogram import Histogram
from django_dbqueue.models import (
    BulkOperation,
    ExportBatch,
    Failure,
    Group,
    HistoryReader,
    Message,
    MessageEvent,
    Queue,
    QueueMinute,
    QueueStatistic,
    Schedule,
    Stream,
    StreamClaim,
    StreamProgress,
    Worker,
)
from django_dbqueue.models.fields import DbNow, clock
from django_dbqueue.operations import bulk
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.tasks.task_headers import TASK
from tests.factories import claim_one

QUEUES = "emails,thumbnails,payments,reports.nightly,search-index,webhooks.outgoing"
PLACES = {
    "shop/payments/gateway.py": "charge",
    "shop/emails/sending.py": "deliver",
    "shop/webhooks/outgoing/deliveries.py": "post_to_the_endpoint_of_the_merchant",
}
KINDS: tuple[tuple[str, str, BaseException, int, int], ...] = (
    ("payments", "shop/payments/gateway.py", ConnectionError("the bank answered 503 for payment 81723"), 14, 1),
    ("emails", "shop/emails/sending.py", LookupError("no such user: order 17 of customer 4711"), 3, 1),
    (
        "webhooks.outgoing",
        "shop/webhooks/outgoing/deliveries.py",
        TimeoutError(
            "HTTPSConnectionPool(host='hooks.merchant-with-a-long-name.example.org', port=443): Max retries exceeded "
            "with url: /v2/orders/events?signature=5f0c2d0e9a4b41c0 (read timeout=10)"
        ),
        5,
        3,
    ),
)
"""Of each kind: queue, file, error, how many messages, and how many deliveries each is allowed."""


def fill(operator: Any) -> dict[str, Any]:
    """Make it, and return the rows that have pages of their own, by what they are."""
    _count()
    _work()
    _fail()
    _group()
    made = {"flow": _flow(), "operation": _operate(operator)}
    _schedule()
    _stream()
    Queue.objects.pause("thumbnails", by="ann", reason="the image server is being moved to the new rack")
    return made | {
        state: getattr(Message.objects, state)().order_by("pk").first()
        for state in ("ready", "delayed", "waiting", "running", "stuck", "dead", "done")
    }


def _count() -> None:
    """Write what workers have counted in an hour and in two days."""
    now = clock("default").replace(second=0, microsecond=0)
    for back in range(60):
        flow_now, late = 240 + 40 * (back % 7) - 3 * back, 4 if 20 < back < 26 else 1
        wait, run = Histogram(), Histogram()
        for number in range(0, flow_now, 10):
            wait.add(late * (40_000 + 9_000 * (number % 50)))
            run.add(12_000 + 3_000 * (number % 40) + 500 * back)
        for queue in ("", "emails"):
            QueueMinute.objects.create(
                queue=queue, minute=now - timedelta(minutes=back), shown=True, messages=flow_now,
                wait=wait.to_text(), run=run.to_text(), failures=25 * (late - 1) + back % 3, retries=back % 3,
                dead=3 * (late - 1),
            )  # fmt: skip
    times = {"wait_p50": 0.4, "wait_p95": 2.5, "wait_p99": 9.0, "run_p50": 0.05, "run_p95": 0.2, "run_p99": 1.5}
    QueueStatistic.objects.bulk_create(
        QueueStatistic(
            queue=queue, hour=now.replace(minute=0) - timedelta(hours=hours), messages=14_300 - 5 * hours,
            failures=hours, retries=hours, dead=hours, **times,
        )
        for queue in ("emails", "webhooks.outgoing") for hours in range(48)
    )  # fmt: skip


def _work() -> None:
    for number in range(1, 4):
        Worker.objects.create(
            id=number, host=f"worker-{number}.eu-central.shop.internal", pid=4_710 + number, conn_id=190 + number,
            threads=8, queues=QUEUES, held=3 * (number == 1),
        )  # fmt: skip
    Worker.objects.filter(pk=3).update(beat_at=clock("default") - timedelta(minutes=10))
    for number in range(5):
        Message.objects.enqueue({"order": number}, queue="emails", key=f"order-confirmation-2026-{number:06}")
        claim_one("emails").ack()
    Message.objects.archive("emails", older_than=0, limit=3)
    Message.objects.enqueue({"to": "ann@example.org"}, queue="emails", key="order-4711")
    claim_one("emails")
    Message.objects.filter(queue="emails", status="run").update(available_at=DbNow(), worker_id=3)
    Message.objects.enqueue_many(range(60), queue="search-index")
    Message.objects.enqueue_many(range(1_200), queue="thumbnails")
    Message.objects.enqueue(
        {"args": [4711], "kwargs": {"format": "pdf"}}, queue="reports.nightly", delay=5_400,
        headers={TASK: "shop.reports.nightly.render_the_report_of_a_merchant"},
    )  # fmt: skip
    for message in Message.objects.claim(3, queue="search-index"):
        Message.objects.filter(pk=message.pk).update(worker_id=1)


def raised(file: str, error: BaseException) -> BaseException:
    """Return the error with the traceback that it has when it is raised in this file."""
    code = compile(f"def {PLACES[file]}(error):\n    raise error", file, "exec")
    names: dict[str, Any] = {}
    exec(code, names)
    try:
        names[PLACES[file]](type(error)(*error.args))  # a fresh one, without the tracebacks of others
    except BaseException as caught:
        return caught
    raise AssertionError("it raises")


def _fail() -> None:
    for queue, file, error, messages, deliveries in KINDS:
        for number in range(messages):
            headers = {TASK: "shop.payments.tasks.charge_card"} if queue == "payments" else None
            Message.objects.enqueue({"n": number}, queue=queue, headers=headers, priority=9)
            for _delivery in range(deliveries):
                held = claim_one(queue)
                Message.objects.filter(pk=held.pk).update(max_reads=deliveries)
                held.nack(error=raised(file, error))
                Message.objects.filter(pk=held.pk).exclude(available_at=None).update(available_at=DbNow())
    Message.objects.enqueue({"n": 1}, queue="payments", priority=9)
    claim_one("payments").nack(error="WorkerDied: its process was ended by signal 9 (SIGKILL).", delay=600)
    Message.objects.enqueue({"n": 1}, queue="emails", priority=9)
    claim_one("emails").reject("the customer has unsubscribed from all of these")
    Failure.objects.create(queue="emails", fingerprint="0" * 64, exception="OldError", place="")
    days = timedelta(days=3, hours=2)
    Failure.objects.filter(queue="payments").update(first_at=clock("default") - days)
    old = list(MessageEvent.objects.filter(queue="payments").order_by("pk").values_list("pk", flat=True)[:2])
    MessageEvent.objects.filter(pk__in=old).update(at=clock("default") - days)


def _group() -> None:
    Group.objects.limit("crawl", "tenant-17", 3)
    for number in range(8):
        Message.objects.enqueue(
            {"n": number}, queue="crawl", group="tenant-17", key=f"https://example.org/a/rather/long/page/{number}"
        )
    for number in range(3):
        Message.objects.enqueue(number, queue="crawl", group=f"f81d4fae-7dec-11d0-a765-00a0c91e6bf6-{number:02}")
    Group.objects.pause("crawl", "acme", by="ann", reason="their server is down until the end of the week")


def _flow() -> int:
    with flow("import of the catalogue of merchant 17") as made:
        parts = made.enqueue_many(range(6), queue="import")
        made.enqueue("the summary", queue="import", after=parts)
    claim_one("import").ack()
    claim_one("import").reject("the file has no column “price”")
    return made.id


def _operate(operator: Any) -> int:
    session = session_of("default")
    chosen = bulk.Selection.now(session, state="dead", queue="payments")
    operation = BulkOperation.objects.order(
        "requeue", chosen, expected=14, reason="the bank is back", user=operator, ticket="t"
    )
    assert operation is not None
    return int(operation.pk)


def _schedule() -> None:
    Schedule.objects.add("nightly", queue="reports.nightly", cron="30 3 * * *", timezone="Europe/Berlin")
    Schedule.objects.add("poll-the-carriers-for-parcels", queue="parcels", cron="*/5 * * * *", payload={"all": True})
    Schedule.objects.disable("poll-the-carriers-for-parcels", reason="they asked us to stop until Monday")


def _stream() -> None:
    now = clock("default")
    Stream.objects.create(
        name="orders-into-the-lake", queue="emails", on_expired="give", lease_seconds=300, run=7,
        runner="spark-driver-5f6c9.eu-central.shop.internal", last_number=42,
    )  # fmt: skip
    StreamClaim.objects.create(
        stream="orders-into-the-lake", number=42, queue="emails", claim_token=77, state="open", ids="[1,2,3]",
        messages=3, lease_until=now + timedelta(minutes=4),
    )  # fmt: skip
    StreamProgress.objects.create(
        name="stream:orders-into-the-lake", query_id="q", messages=12_345_678, rate=15_321.4, backlog=10_000,
        backlog_capped=1, failures=2, progressed_at=now, failed_at=now, error="RuntimeError: the sink is away",
    )  # fmt: skip
    HistoryReader.objects.create(name="warehouse", position=2)
    ExportBatch.objects.create(lake="s3://shop-lake/dbqueue/emails", number=3, first_id=1, last_id=2, rows=2,
                               state="verified")  # fmt: skip
