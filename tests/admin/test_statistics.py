from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from django_dbqueue.models import QueueStatistic
from tests.admin.conftest import url

pytestmark = pytest.mark.django_db
NEWEST = datetime(2026, 3, 29, 13, tzinfo=UTC)


def counted(queue: str, *, hours_before: int = 0, messages: int = 10, dead: int = 0, **more: Any) -> QueueStatistic:
    row = {"messages": messages, "dead": dead, "failures": dead, "retries": 0, **more}
    return QueueStatistic.objects.create(queue=queue, hour=NEWEST - timedelta(hours=hours_before), **row)


def page(browser: Client, query: str = "") -> str:
    response = browser.get(url("changelist", model="queuestatistic") + query)
    assert response.status_code == 200
    return response.content.decode()


def test_hours_are_listed_in_utc_with_their_percentiles_in_seconds(browser: Client) -> None:
    row = counted("emails", messages=1234, dead=5, wait_p50=0.5, wait_p95=2, wait_p99=10.25)
    text = page(browser)
    for words in ("2026-03-29 13:00", "emails", "1234", "0.500 · 2.000 · 10.250", "– · – · –"):
        assert words in text
    assert "0.500 · 2.000 · 10.250" in browser.get(url("change", row.pk, model="queuestatistic")).content.decode()


def test_a_queue_is_found_by_its_whole_name_alone(browser: Client) -> None:
    counted("emails", messages=30)
    counted("Emails", messages=7)
    text = page(browser, "?q=emails")
    assert text.count('<td class="field-queue">') == 1
    assert '<td class="field-queue">' not in page(browser, "?q=email")


def test_the_sums_of_all_queues_are_for_charts_alone(browser: Client) -> None:
    counted("", messages=99)
    counted("emails", messages=7)
    assert page(browser).count('<td class="field-queue">') == 1


def test_the_charts_are_a_click_away(browser: Client) -> None:
    assert 'href="/admin/django_dbqueue/?span=week"' in page(browser)


def test_an_empty_table_shows_what_fills_it(browser: Client) -> None:
    assert "queue_pipeline statistics" in page(browser)


def test_a_name_that_somebody_wrote_by_sql_is_escaped(browser: Client) -> None:
    counted("<b>evil</b>")
    assert "&lt;b&gt;evil&lt;/b&gt;" in page(browser)


def test_statistics_can_only_be_viewed(browser: Client) -> None:
    row = counted("emails")
    assert browser.get(url("add", model="queuestatistic")).status_code == 403
    assert browser.post(url("delete", row.pk, model="queuestatistic"), {"post": "yes"}).status_code == 403
