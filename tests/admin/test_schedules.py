from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.sites import site

from django_dbqueue.admin.display import NOTHING
from django_dbqueue.admin.schedule_pages import ScheduleAdmin
from django_dbqueue.models import Schedule
from django_dbqueue.models.fields import clock
from django_dbqueue.schedules.declarations import Plan, read
from tests.admin.conftest import url

if TYPE_CHECKING:
    from typing import Any

    from django.test import Client

pytestmark = pytest.mark.django_db


@pytest.fixture
def nightly() -> Plan:
    plan = read("nightly", {"queue": "reports", "cron": "30 3 * * *", "timezone": "Europe/Berlin"})
    Schedule.objects.begin(plan, declared_at=clock("default"))
    return plan


def next_due() -> Any:
    [row] = ScheduleAdmin(Schedule, site).get_queryset(None)  # type: ignore[arg-type]
    return ScheduleAdmin(Schedule, site).next_due(row)


def test_a_schedule_is_listed_with_what_is_next(browser: Client, nightly: Plan) -> None:
    assert next_due() == nightly.cron.after(clock("default"))
    text = browser.get(url("changelist", model="schedule")).content.decode()
    for word in ("nightly", "reports", "30 3 * * *", "Europe/Berlin", "0 s ago"):
        assert word in text
    assert browser.get(url("change", "nightly", model="schedule")).status_code == 200


def test_nothing_is_next_where_no_worker_declares_it_any_more(nightly: Plan) -> None:
    Schedule.objects.update(seen_at=clock("default") - timedelta(minutes=4))
    assert next_due() == NOTHING


def test_a_row_that_somebody_wrote_by_sql_is_shown_and_not_believed(browser: Client, nightly: Plan) -> None:
    Schedule.objects.update(cron="<b>never</b>", timezone="Mars")
    assert next_due() == NOTHING
    assert "&lt;b&gt;never&lt;/b&gt;" in browser.get(url("changelist", model="schedule")).content.decode()


def test_schedules_can_only_be_looked_at(browser: Client, nightly: Plan) -> None:
    assert browser.get(url("add", model="schedule")).status_code == 403
    assert browser.post(url("change", "nightly", model="schedule"), {"cron": "* * * * *"}).status_code == 403
    assert browser.post(url("delete", "nightly", model="schedule"), {"post": "yes"}).status_code == 403
    assert Schedule.objects.get().cron == "30 3 * * *"
