"""The dashboard's figures, who sees which, and that they stay small whatever is in the tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from django_dbqueue.admin import dashboard
from django_dbqueue.insight import activity
from django_dbqueue.models import Message, Queue, QueueMinute, QueueStatistic, StatisticProgress, Worker
from django_dbqueue.models.fields import DbNow, clock
from django_dbqueue.sessions.django_session import DjangoSession
from tests.admin.conftest import make_dead, make_done, make_stuck, url
from tests.factories import behind
from tests.insight.passing import begin, ended_in_the_last_minute

pytestmark = pytest.mark.django_db
PAGE = "/admin/django_dbqueue/"
MINUTE = timedelta(minutes=1)


def page(browser: Client, query: str = "") -> str:
    response = browser.get(PAGE + query)
    assert response.status_code == 200
    return str(response.content.decode())


def data(browser: Client, query: str = "") -> dict[str, Any]:
    response = browser.get(url("figures", model="queue") + query)
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    found: dict[str, Any] = response.json()
    return found


def row(text: str, queue: str) -> list[str]:
    """The cells of a queue's row, as they are read."""
    found = re.search(rf'<tr data-queue="{re.escape(queue)}">(.*?)</tr>', text, re.DOTALL)
    assert found, queue
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", found[1], re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in cells]


def busy_worker(**columns: Any) -> Worker:
    return Worker.objects.create(
        **({"id": 7, "host": "w1", "pid": 11, "queues": "q", "threads": 4, "held": 1} | columns)
    )


def test_a_queue_shows_its_depths_its_oldest_its_flow_and_its_workers(browser: Client) -> None:
    begin()
    ended_in_the_last_minute(make_done("q"))
    make_stuck("q")
    make_dead("q")
    Message.objects.enqueue_many(range(3), queue="q")
    Message.objects.enqueue({}, queue="q", delay=60)
    behind(queue="q")
    busy_worker()
    for text in (page(browser), data(browser)["html"]):
        name, claims, stuck, dead, running, ready, delayed, waits, *rest = row(text, "q")
        oldest, coming, out, workers, _charts = rest
        assert (name, claims) == ("q", "▶ open")
        assert (stuck, dead, running, ready, delayed, waits) == ("1", "1", "1", "3", "1", "1")
        assert oldest.endswith(" s")
        assert (coming, out, workers) == ("8", "1", "1 (4 threads)")


def tiles(text: str) -> dict[str, tuple[str, str]]:
    """Each tile's figure and address, by its label."""
    found = re.findall(
        r"<li class=\"dbqueue-tile[^>]*>(?:<a href=\"([^\"]*)\">)?<strong>([^<]*)</strong> <span>([^<]*)<", text
    )
    return {label: (figure, url) for url, figure, label in found}


def test_tiles_add_up_all_queues_and_lead_to_what_they_count(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_stuck("q")
    for queue in ("q", "other", "other"):
        make_dead(queue)
    Message.objects.enqueue_many(range(5), queue="q")
    busy_worker()
    busy_worker(id=8, pid=12)
    Worker.objects.filter(pk=8).update(beat_at=DbNow() - timedelta(hours=1))
    for text in (page(browser), data(browser)["tiles"]):
        shown = tiles(text)
        assert {label: figure for label, (figure, _url) in shown.items() if label != "oldest ready"} == {
            "stuck": "1", "dead": "3", "ready": "5", "workers that beat": "1", "ended in the last minute": "0",
        }  # fmt: skip
        assert shown["oldest ready"][0].endswith(" s")
        for label in ("stuck", "dead", "ready", "workers that beat"):
            assert browser.get(shown[label][1]).status_code == 200
    monkeypatch.setattr(dashboard, "CAP", 1)
    monkeypatch.setattr(dashboard, "PAGE", 4)
    assert tiles(page(browser))["ready"][0] == "2+"


def test_a_paused_queue_shows_by_whom_and_why_and_comes_first(browser: Client) -> None:
    Message.objects.enqueue({}, queue="a")
    Queue.objects.pause("z", by="ann", reason="the <b>printer</b> burns")
    text = page(browser)
    assert row(text, "z")[1] == "❚❚ paused by ann: the &lt;b&gt;printer&lt;/b&gt; burns"
    assert text.index('data-queue="z"') < text.index('data-queue="a"')


def test_queues_are_shown_page_by_page_and_those_that_want_attention_first(browser: Client) -> None:
    for number in range(30):
        Message.objects.enqueue({}, queue=f"q{number:02}")
    make_dead("q29")
    shown = re.findall('data-queue="([^"]+)"', page(browser))
    assert shown == ["q29", *(f"q{number:02}" for number in range(24))]
    assert re.findall('data-queue="([^"]+)"', page(browser, "?p=2")) == [f"q{number:02}" for number in range(24, 29)]
    assert re.findall('data-queue="([^"]+)"', data(browser, "?p=2")["html"])[0] == "q24"


def test_counts_stop_at_a_cap(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_dbqueue.admin.dashboard.CAP", 2)
    Message.objects.enqueue_many(range(5), queue="q")
    assert row(page(browser), "q")[5] == "2+"


def test_what_comes_in_faster_than_is_read_is_an_estimate(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "NEWEST", 10)
    Message.objects.enqueue_many(range(20), queue="q")
    began = clock("default")
    Message.objects.update(created_at=began - timedelta(seconds=10))
    found = activity.incoming(DjangoSession("default"))
    covered = (clock("default") - began).total_seconds() + 10
    assert found.is_estimate
    assert round(10 * 60 / covered) <= found.by_queue["q"] <= 10 * 60 / 10
    assert row(page(browser), "q")[9].startswith("≈ ")


def test_a_worker_shows_its_beat_its_session_its_load_and_what_it_holds(browser: Client) -> None:
    message = Message.objects.enqueue({}, queue="q")
    assert Message.objects.claim(1, queue="q")
    Message.objects.update(worker_id=7)
    busy_worker(conn_id=4242, held=3)
    busy_worker(id=8, host="w2", held=0)
    Worker.objects.filter(pk=8).update(beat_at=clock("default") - timedelta(days=2, hours=3))
    text = page(browser)
    for words in ("w1:11", "4242", "3 held, 4 threads", f"#{message.pk}</a> q, ", "and 2 more", "✕", "2 d 3 h ago"):
        assert words in text


def test_no_more_running_rows_are_read_than_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    Message.objects.enqueue_many(range(9), queue="q")
    assert len(Message.objects.claim(9, queue="q")) == 9
    Message.objects.update(worker_id=7)
    busy_worker(held=9)
    monkeypatch.setattr(activity, "HELD", 4)
    [busy] = activity.busy_workers(DjangoSession("default"))
    assert len(busy.holds) == 4


def minute_row(moment: Any, *, queue: str = "", **columns: Any) -> None:
    QueueMinute.objects.create(
        **({"messages": 6, "failures": 2, "retries": 1, "dead": 1, "wait": "[500,6]", "run": "[100,6]"} | columns),
        queue=queue, minute=moment, shown=True,
    )  # fmt: skip


def point(series: dict[str, list[Any]], moment: datetime) -> dict[str, Any]:
    """The figures of one moment; its place depends on when the page was made."""
    place = series["at"].index(moment.timestamp())
    return {name: values[place] for name, values in series.items()}


def test_the_hour_has_a_point_for_each_minute_and_the_tables_have_the_charts_figures(browser: Client) -> None:
    minute = clock("default").replace(second=0, microsecond=0) - 3 * MINUTE
    minute_row(minute)
    minute_row(minute, queue="q", messages=2)
    series = data(browser)["series"]
    assert len(series["at"]) == len(series["messages"]) == 60
    full, empty = point(series, minute), point(series, minute - MINUTE)
    assert (full["messages"], full["failures"], full["dead"]) == (6, 2, 1)
    assert full["wait_p95"] > full["run_p95"] > 0
    assert (empty["messages"], empty["wait_p50"]) == (0, None)
    assert point(data(browser, "?queue=q")["series"], minute)["messages"] == 2
    assert f'<th scope="row">{minute:%Y-%m-%d %H:%M}</th>' in page(browser)


def test_the_day_adds_minutes_up_to_quarters_of_an_hour(browser: Client) -> None:
    now = clock("default").replace(second=0, microsecond=0)
    quarter = now.replace(minute=now.minute // 15 * 15) - 15 * MINUTE
    for minute in range(15):
        minute_row(quarter + minute * MINUTE, wait="[500,6]" if minute else "[1500,6]")
    series = data(browser, "?span=day")["series"]
    assert len(series["at"]) == 96
    full = point(series, quarter)
    assert full["messages"] == 6
    assert full["wait_p95"] > 100 * full["wait_p50"]


def test_the_week_has_a_point_for_each_hour(browser: Client) -> None:
    hour = clock("default").replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    columns = {"failures": 0, "retries": 0, "dead": 0, "wait_p50": 0.5, "wait_p95": 2.0}
    QueueStatistic.objects.create(queue="", hour=hour, messages=120, **columns)
    series = data(browser, "?span=week")["series"]
    assert len(series["at"]) == 168
    full = point(series, hour)
    assert (full["messages"], full["wait_p95"]) == (2, 2.0)


@pytest.mark.parametrize(
    "query", ["?span=year&p=-1", "?p=999999999999", "?queue=%00", "?queue=a%20b&span=%F0%9F%98%80"]
)
def test_a_query_that_means_nothing_shows_the_default(browser: Client, query: str) -> None:
    assert len(data(browser, query)["series"]["at"]) == 60
    page(browser, query)


def test_the_figures_need_the_permission_to_see_queues(client_with: Callable[..., Client]) -> None:
    stranger = client_with("view_message")
    assert stranger.get(url("figures", model="queue")).status_code == 403
    assert "dbqueue-dashboard" not in page(stranger)


def test_each_part_needs_its_own_permission(client_with: Callable[..., Client]) -> None:
    make_dead("q")
    busy_worker()
    text = page(client_with("view_queue"))
    assert row(text, "q")[:4] == ["q", "▶ open", "0", "1"]
    assert "dbqueue-workers" not in text
    assert "dbqueue-charts" not in text
    assert url("changelist") not in text
    assert data(client_with("view_queue"))["series"]["at"] == []
    assert "dbqueue-workers" in page(client_with("view_queue", "view_worker"))
    assert "dbqueue-charts" in page(client_with("view_queue", "view_queuestatistic"))


def test_a_person_who_is_not_signed_in_is_sent_to_the_login(client: Client) -> None:
    response = client.get(url("figures", model="queue"))
    assert response.status_code == 302
    assert "/login/" in response["Location"]


def test_the_page_has_no_script_or_style_of_its_own(browser: Client) -> None:
    text = page(browser)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert " style=" not in text
    assert "<style" not in text


def test_looking_changes_nothing(browser: Client) -> None:
    Message.objects.enqueue({}, queue="q")
    before = list(Message.objects.values())
    page(browser)
    data(browser)
    assert list(Message.objects.values()) == before
    assert not StatisticProgress.objects.exists()
    assert not Queue.objects.exists()
