"""The page of figures: what Prometheus' own parser reads of it is so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.db import connection
from django.test import Client, RequestFactory, override_settings

from django_dbqueue import Envelope
from django_dbqueue.contrib.openmetrics import figures as figures_module
from django_dbqueue.contrib.openmetrics.exposition import CONTENT_TYPE, Family, exposition
from django_dbqueue.contrib.openmetrics.figures import LE_BITS, buckets_of, families, figures
from django_dbqueue.contrib.openmetrics.metrics_view import metrics
from django_dbqueue.insight.histogram import Histogram, bucket_of
from django_dbqueue.models import Message, Queue, StreamProgress, Worker
from django_dbqueue.models.fields import clock
from tests.factories import QUEUE, dead, done, held, let_pause_end, waiting
from tests.insight.passing import begin, count, ended_at, let_pass
from tests.monitors.conftest import TOKEN

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = timedelta(minutes=1)


def test_what_ended_is_counted_by_queue_and_outcome_and_keeps_its_count(scrape: Callable[[], Any]) -> None:
    begin()
    done()
    done(queue="other")
    dead()
    let_pass(MINUTE)
    for minutes in (0, 3, 4, 10, 60 * 24, 60 * 6):
        let_pass(minutes * MINUTE)
        count()
        seen = scrape()
        assert seen.value("dbqueue_messages_total", queue=QUEUE, outcome="done") == 1, minutes
        assert seen.value("dbqueue_messages_total", queue=QUEUE, outcome="dead") == 1
        assert seen.value("dbqueue_messages_total", queue="other", outcome="done") == 1
        assert seen.value("dbqueue_run_seconds_count", queue="other") == 1
    done()
    let_pass(MINUTE)
    count()
    assert scrape().value("dbqueue_messages_total", queue=QUEUE, outcome="done") == 2


def a_stream_s_progress(name: str, **columns: Any) -> None:
    figures = {"query_id": "q", "messages": 7, "rate": 1, "backlog": 3, "backlog_capped": 0, "failures": 2}
    StreamProgress.objects.create(name=name, **{"progressed_at": clock("default"), **figures, **columns})


def test_streams_on_spark_are_shown_as_a_listener_has_recorded_them(scrape: Callable[[], Any]) -> None:
    now = clock("default")
    a_stream_s_progress("stream:s", failed_at=now - MINUTE, progressed_at=now)
    a_stream_s_progress("reader:r", failed_at=now, progressed_at=now - MINUTE, backlog_capped=1)
    seen, stream, reader = scrape(), {"kind": "stream", "stream": "s"}, {"kind": "reader", "stream": "r"}
    assert seen.value("dbqueue_stream_messages_total", **stream) == 7
    assert seen.value("dbqueue_stream_failures_total", **stream) == 2
    assert seen.value("dbqueue_stream_backlog", **reader) == 3
    for name in ("dbqueue_stream_failing", "dbqueue_stream_backlog_capped"):
        assert (seen.value(name, **stream), seen.value(name, **reader)) == (0, 1)
    moment = seen.value("dbqueue_stream_progress_timestamp_seconds", **stream)
    assert moment == pytest.approx(now.timestamp(), abs=1e-3)


def test_times_are_histograms_whose_bounds_hold_what_took_no_longer(scrape: Callable[[], Any]) -> None:
    begin()
    let_pass(2 * MINUTE)
    for seconds in (0.0005, 0.02, 3.0):
        ended_at(done(), clock("default") - MINUTE, wait=10.0, run=seconds)
    count()
    seen = scrape()
    counts = {
        sample.labels["le"]: sample.value
        for sample in seen.families["dbqueue_run_seconds"].samples
        if sample.name.endswith("_bucket")
    }
    assert counts["0.001024"] == 1.0, counts
    assert counts["0.016384"] == 1.0
    assert counts["0.032768"] == 2.0
    assert counts["2.097152"] == 2.0
    assert counts["4.194304"] == counts["+Inf"] == 3.0
    assert seen.value("dbqueue_run_seconds_sum", queue=QUEUE) == pytest.approx(3.0205, rel=1 / 64)
    assert seen.value("dbqueue_wait_seconds_sum", queue=QUEUE) == pytest.approx(30, rel=1 / 64)


def test_every_bound_is_where_a_bucket_ends() -> None:
    for bits in LE_BITS:
        below, above = Histogram({bucket_of((1 << bits) - 1): 1}), Histogram({bucket_of(1 << bits): 1})
        bound = f"{(1 << bits) / 1e6:.6f}"
        assert dict(buckets_of(below))[bound] == 1
        assert dict(buckets_of(above))[bound] == 0


def test_what_is_there_is_counted_by_state_with_its_workers(scrape: Callable[[], Any]) -> None:
    waiting()
    waiting()
    dead()
    held(lease=0.001)
    Message.objects.enqueue_many([Envelope({}, group="a")] * 4, queue="grouped")
    Message.objects.enqueue({}, queue="later", delay=1000)
    Queue.objects.pause(QUEUE, by="op")
    Worker.objects.create(id=1, host="h", pid=1, queues=f"{QUEUE},idle", threads=3)
    Message.objects.ready(QUEUE).order_by("pk")[:1].get()
    seen = scrape()
    assert seen.value("dbqueue_ready", queue=QUEUE) == 2
    assert seen.value("dbqueue_dead", queue=QUEUE) == 1
    assert seen.value("dbqueue_stuck", queue=QUEUE) == 1
    assert seen.value("dbqueue_ready", queue="grouped") == 1
    assert seen.value("dbqueue_waiting", queue="grouped") == 3
    assert seen.value("dbqueue_ready", queue="later") == seen.value("dbqueue_waiting", queue="later") == 0
    assert seen.value("dbqueue_workers", queue=QUEUE) == seen.value("dbqueue_workers", queue="idle") == 1
    assert seen.value("dbqueue_worker_threads", queue=QUEUE) == 3
    assert seen.value("dbqueue_workers", queue="later") == 0
    assert seen.value("dbqueue_paused", queue=QUEUE) == 1
    assert seen.value("dbqueue_paused", queue="later") == 0
    assert seen.value("dbqueue_pause_end_timestamp_seconds", queue=QUEUE) is None
    assert seen.value("dbqueue_queues_left_out") == 0
    age = seen.value("dbqueue_oldest_ready_seconds", queue=QUEUE)
    assert age is not None
    assert 0 < age < 600
    assert seen.value("dbqueue_oldest_ready_seconds", queue="later") == 0


def test_a_pause_with_an_end_shows_when_and_is_none_after_that(scrape: Callable[[], Any]) -> None:
    Queue.objects.pause(QUEUE, for_=3_600)
    seen = scrape()
    assert seen.value("dbqueue_paused", queue=QUEUE) == 1
    end = Queue.objects.get().paused_until.timestamp()
    assert abs(seen.value("dbqueue_pause_end_timestamp_seconds", queue=QUEUE) - end) < 0.001
    waiting()
    let_pause_end()
    seen = scrape()
    assert seen.value("dbqueue_paused", queue=QUEUE) == 0
    assert seen.value("dbqueue_pause_end_timestamp_seconds", queue=QUEUE) is None


def test_a_count_that_stopped_reports_it_and_never_more_than_there_is(
    scrape: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures_module.figures, "__kwdefaults__", {"most_queues": 500, "budget": 40})
    Message.objects.enqueue_many(range(60), queue="deep")
    for number in range(5):
        Message.objects.enqueue({}, queue=f"flat-{number}")
    seen = scrape()
    deep = seen.value("dbqueue_ready", queue="deep")
    assert deep is not None
    assert 10 <= deep <= 40
    assert seen.value("dbqueue_ready_capped", queue="deep") == 1
    assert seen.value("dbqueue_ready", queue="flat-1") == 1
    assert seen.value("dbqueue_ready_capped", queue="flat-1") == 0
    monkeypatch.setattr(figures_module.figures, "__kwdefaults__", {"most_queues": 500, "budget": 6_000})
    assert scrape().value("dbqueue_ready", queue="deep") == 60
    assert scrape().value("dbqueue_ready_capped", queue="deep") == 0


def test_a_group_as_deep_as_can_be_costs_no_more_than_its_share(
    scrape: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures_module.figures, "__kwdefaults__", {"most_queues": 500, "budget": 40})
    Message.objects.enqueue_many([Envelope({}, group="a")] * 60, queue="deep")
    seen = scrape()
    count = seen.value("dbqueue_waiting", queue="deep")
    assert count is not None
    assert 0 < count <= 40
    assert seen.value("dbqueue_waiting_capped", queue="deep") == 1


def test_queues_beyond_the_most_are_left_out_and_counted() -> None:
    for number in range(4):
        Message.objects.enqueue({}, queue=f"q-{number}")
    seen = figures("default", most_queues=3)
    assert (seen.queues, seen.left_out) == (["q-0", "q-1", "q-2"], 1)
    assert "dbqueue_queues_left_out 1\n" in exposition(families(seen))


def test_an_empty_database_is_a_page_too(scrape: Callable[[], Any]) -> None:
    seen = scrape()
    assert seen.text.endswith("# EOF\n")
    assert seen.response.headers["Content-Type"] == CONTENT_TYPE
    assert seen.value("dbqueue_count_age_seconds") is None
    begin()
    age = scrape().value("dbqueue_count_age_seconds")
    assert age is not None
    assert age >= 0


def test_labels_and_helps_are_escaped() -> None:
    family = Family("odd", "gauge", 'a "help"\nof \\two lines')
    family.add(1, {"name": 'a "quoted"\nback\\slash'})
    assert exposition([family]) == (
        '# TYPE odd gauge\n# HELP odd a \\"help\\"\\nof \\\\two lines\n'
        'odd{name="a \\"quoted\\"\\nback\\\\slash"} 1\n# EOF\n'
    )


each_page = pytest.mark.parametrize("path", ["/metrics", "/health"])


@each_page
def test_nothing_shows_it_without_token_or_permission(path: str, monitor: Client) -> None:
    refused = Client().get(path)
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer ")
    for header in ("Bearer wrong", "Bearer", "Bearer ", f"Basic {TOKEN}", "Bearer \u00e9"):
        assert Client(headers={"Authorization": header}).get(path).status_code == 401, header
    client = Client()
    client.force_login(User.objects.create_user("somebody"))
    assert client.get(path).status_code == 401


@each_page
def test_whoever_has_the_permission_sees_it(path: str) -> None:
    user = User.objects.create_user("somebody")
    user.user_permissions.add(Permission.objects.get(codename="view_queuestatistic"))
    client = Client()
    client.force_login(user)
    assert client.get(path).status_code == 200


@each_page
def test_no_empty_token_opens_it(path: str) -> None:
    for token in ("", None):
        with override_settings(DBQUEUE={"MONITOR_TOKEN": token}):
            for header in ("Bearer ", "Bearer None", "Bearer"):
                assert Client(headers={"Authorization": header}).get(path).status_code == 401


@each_page
def test_it_answers_only_those_who_read(path: str, monitor: Client) -> None:
    refused = monitor.post(path)
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")
    assert monitor.head(path).status_code == 200


@each_page
def test_no_monitor_is_sent_to_the_login_page_where_every_page_needs_a_login(path: str, monitor: Client) -> None:
    everywhere = "django.contrib.auth.middleware.LoginRequiredMiddleware"
    with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, everywhere]):
        assert Client().get("/members").status_code == 302
        assert monitor.get(path).status_code == 200
        assert Client().get(path).status_code == 401
        assert monitor.post(path).status_code == 405


def test_a_project_without_users_needs_the_token(monitor: Client) -> None:
    request = RequestFactory().get("/metrics")
    assert not hasattr(request, "user")
    assert metrics(request).status_code == 401
    request.user = AnonymousUser()
    assert metrics(request).status_code == 401
    request = RequestFactory().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert metrics(request).status_code == 200


def test_a_database_that_cannot_be_read_is_503(monitor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(execute: Any, sql: str, *rest: Any) -> Any:
        return execute(sql.replace("django_dbqueue_", "no_such_"), *rest)

    with connection.execute_wrapper(fail):
        answers = [monitor.get(path) for path in ("/metrics", "/health")]
    assert [answer.status_code for answer in answers] == [503, 503]
    assert answers[1].json() == {"ok": False, "problems": [{"queue": None, "problem": "database"}]}
    assert b"no_such" not in answers[0].content
