"""What this process sends to Sentry, kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sentry_sdk
from django.db import connection
from django.test.utils import CaptureQueriesContext
from sentry_sdk.integrations import Integration
from sentry_sdk.integrations.logging import LoggingIntegration

from django_dbqueue import Envelope, hooks, signals
from django_dbqueue.consumers import consumer
from django_dbqueue.contrib.sentry import DBQueueIntegration
from django_dbqueue.contrib.sentry.check_ins import MAX_SLUG, CheckIn, check_in_of, declared, slug_of
from django_dbqueue.contrib.sentry.deaths import is_reported
from django_dbqueue.models import Message, Schedule
from django_dbqueue.testing import run_consumers
from tests.factories import QUEUE, dead
from tests.sentry.transports import Memory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def init() -> Iterator[Callable[..., None]]:
    """Set Sentry up in this process, with the integration as it is given; afterwards it is off, and nothing listens."""
    before = hooks.installed()
    client = sentry_sdk.get_client()

    def start(*integrations: Integration) -> None:
        sentry_sdk.init(
            dsn="https://key@sentry.invalid/1",
            transport=Memory,
            traces_sample_rate=1.0,
            default_integrations=False,
            integrations=integrations,
        )
        if hooks.installed() == before:  # a process sets an integration up only once
            DBQueueIntegration.setup_once()

    yield start
    sentry_sdk.get_global_scope().set_client(client)
    for each in hooks.installed():
        if each not in before:
            hooks.remove(each)
    signals.message_died.disconnect(dispatch_uid="django_dbqueue.sentry")


def kept(kind: str) -> list[Any]:
    return [payload for type_, payload in Memory.kept if type_ == kind]


def test_an_enqueue_is_a_span_of_the_sender_and_the_message_carries_its_trace(init: Callable[..., None]) -> None:
    init(DBQueueIntegration())
    with sentry_sdk.start_transaction(name="request", op="http.server"):
        one = Message.objects.enqueue({"n": 1}, queue="q", headers={"mine": 1})
        Message.objects.enqueue_many([1, Envelope(2, headers={"sentry-trace": "mine"})], queue="many")
    [request] = kept("transaction")
    single, several = request["spans"]
    assert (single["op"], single["description"]) == ("queue.publish", "q")
    assert single["data"]["messaging.message.id"] == str(one.pk)
    assert single["data"]["messaging.destination.name"] == "q"
    assert single["data"]["messaging.message.body.size"] == len(one.body)
    assert several["data"]["messaging.batch.message_count"] == 2
    trace_id = request["contexts"]["trace"]["trace_id"]
    assert one.headers["sentry-trace"] == f"{trace_id}-{single['span_id']}-1"
    assert f"sentry-trace_id={trace_id}" in str(one.headers["baggage"])
    assert one.headers["mine"] == 1
    first, second = Message.objects.in_queue("many").order_by("pk")
    assert str(first.headers["sentry-trace"]).startswith(trace_id)
    assert second.headers == {"sentry-trace": "mine"}


def test_what_is_switched_off_is_not_sent(init: Callable[..., None]) -> None:
    init(DBQueueIntegration(spans=False, deaths=False, check_ins=False))
    with sentry_sdk.start_transaction(name="request"):
        message = Message.objects.enqueue({}, queue="q")
    assert message.headers == {}
    signals.message_died.send(Message, queue=QUEUE, message_id=dead().pk, error="ValueError: no")
    assert kept("transaction")[0]["spans"] == []
    assert kept("event") == kept("check_in") == []


def test_a_project_without_the_integration_is_left_alone(init: Callable[..., None]) -> None:
    init(DBQueueIntegration())
    sentry_sdk.get_global_scope().set_client(sentry_sdk.Client(dsn=None))
    assert Message.objects.enqueue({}, queue="q").headers == {}
    signals.message_died.send(Message, queue=QUEUE, message_id=dead().pk, error="ValueError: no")
    assert Memory.kept == []


@pytest.mark.parametrize("is_ours_on", [False, True])
def test_a_death_is_one_event_with_its_frames_with_the_integration_and_without(
    init: Callable[..., None], registry: dict[str, Any], is_ours_on: bool
) -> None:
    def break_down(message: Message) -> None:
        raise ValueError("broken")

    consumer(QUEUE, max_reads=1)(break_down)
    init(DBQueueIntegration(deaths=is_ours_on, spans=False), LoggingIntegration())
    Message.objects.enqueue({}, queue=QUEUE)
    run_consumers(QUEUE, on_error="collect")
    [event] = kept("event")
    [exception] = event["exception"]["values"]
    assert (exception["type"], exception["value"]) == ("ValueError", "broken")
    assert exception["stacktrace"]["frames"][-1]["function"].endswith("break_down")


def test_a_death_of_a_message_that_is_gone_is_reported_too(init: Callable[..., None]) -> None:
    init(DBQueueIntegration())
    signals.message_died.send(Message, queue="q", message_id=2**40, error="ValueError: no\nmore")
    [event] = kept("event")
    assert event["exception"]["values"][0]["value"] == "no"
    assert event["contexts"]["message"]["id"] == 2**40


def test_log_lines_about_a_death_are_no_second_event() -> None:
    assert is_reported({"logger": "django_dbqueue", "extra": {"event": "died"}})
    assert is_reported({"logger": "django.tasks", "level": "error"})
    assert not is_reported({"logger": "django_dbqueue", "extra": {"event": "lease_lost"}})
    assert not is_reported({"logger": "django_dbqueue"})
    assert not is_reported({"logger": "shop", "level": "error"})


def test_a_check_in_is_that_of_a_schedules_due_time_and_of_nothing_else() -> None:
    text = '{"dbqueue.schedule":"nightly","dbqueue.due":"2026-01-01T00:00:00+00:00"}'
    found = check_in_of(text)
    assert found == CheckIn("nightly", "2026-01-01T00:00:00+00:00")
    assert found is not None
    assert found.id == check_in_of(text).id  # type: ignore[union-attr]
    assert found.id != found._replace(due="2026-01-02T00:00:00+00:00").id
    for other in (
        None,
        "{}",
        '{"dbqueue.schedule":1,"dbqueue.due":2}',
        '{"dbqueue.schedule":"x"}',
        '"dbqueue.schedule"',
        text.replace("}", ',"dbqueue.run_by":"ann"}'),
    ):
        assert check_in_of(other) is None


def begin(schedule: str) -> Any:
    """Send the first status of a due time; return what it tells of the monitor."""
    CheckIn(schedule, "2026-01-01T00:00:00+00:00").begin("default")
    sent = kept("check_in")[-1]
    assert sent["status"] == "in_progress"
    return sent.get("monitor_config")


def crontab(value: str, timezone: str) -> dict[str, Any]:
    return {"schedule": {"type": "crontab", "value": value}, "timezone": timezone}


def of_schedules(made: CaptureQueriesContext) -> list[str]:
    return [query["sql"] for query in made if Schedule._meta.db_table in query["sql"]]


def test_the_monitor_of_an_added_schedule_has_the_crontab_that_it_has_now(init: Callable[..., None]) -> None:
    init(DBQueueIntegration())
    Schedule.objects.add("weekly", queue=QUEUE, cron="0 6 * * 1", timezone="Europe/Berlin")
    assert begin("weekly") == crontab("0 6 * * 1", "Europe/Berlin")
    Schedule.objects.change("weekly", queue=QUEUE, cron="0 7 * * 2", timezone="UTC")
    assert begin("weekly") == crontab("0 7 * * 2", "UTC")
    Schedule.objects.change("weekly", queue=QUEUE, cron="0 7 * * 2 */5", timezone="UTC")
    assert begin("weekly") is None, "Sentry has no seconds"
    Schedule.objects.remove("weekly")
    assert begin("weekly") is None


@pytest.mark.parametrize("name", ["x" * 1000, "\u00c4 \u00f6/", "nul\x00", ""])
def test_a_header_that_names_no_schedule_is_a_check_in_without_a_crontab(init: Callable[..., None], name: str) -> None:
    init(DBQueueIntegration())
    with CaptureQueriesContext(connection) as made:
        assert begin(name) is None
    assert not of_schedules(made)


def test_the_monitor_of_a_declared_schedule_costs_no_query(init: Callable[..., None], registry: dict[str, Any]) -> None:
    consumer(QUEUE, cron="0 5 * * *", timezone="UTC")(lambda _message: None)
    consumer("fast", cron="0 5 * * * */5", timezone="UTC")(lambda _message: None)
    init(DBQueueIntegration())
    declared.cache_clear()
    with CaptureQueriesContext(connection) as made:
        assert begin(QUEUE) == crontab("0 5 * * *", "UTC")
        assert begin("fast") is None
    declared.cache_clear()
    assert not of_schedules(made)


def test_a_schedule_that_cannot_be_read_costs_the_crontab_alone(init: Callable[..., None]) -> None:
    def fail(execute: Any, sql: str, *rest: Any) -> Any:
        return execute(sql.replace(Schedule._meta.db_table, "no_such_table"), *rest)

    init(DBQueueIntegration())
    Schedule.objects.add("weekly", queue=QUEUE, cron="0 6 * * 1", timezone="UTC")
    with connection.execute_wrapper(fail):
        assert begin("weekly") is None
    assert begin("weekly") is not None


def test_a_slug_is_the_schedules_name_or_one_that_sentry_can_take() -> None:
    assert slug_of("nightly-report_2") == "nightly-report_2"
    odd = ["Nightly", "nightly.report", "nightly:report", "n" * 64, "n" * 63 + "m", "17"]
    slugs = [slug_of(name) for name in odd]
    assert len(set(slugs)) == len(odd)
    for slug in slugs:
        assert len(slug) <= MAX_SLUG
        assert slug.replace("-", "").replace("_", "").isalnum()
        assert slug == slug.lower()
        assert not slug.isdecimal()
