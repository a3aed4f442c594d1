"""The pages of groups in a real browser, wide and narrow: nothing is cut off, and an operator gets everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.utils import quote
from selenium.webdriver.common.keys import Keys

from django_dbqueue.models import Group, Message
from tests.admin.conftest import url
from tests.factories import claim_one

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

    from tests.admin.browser import Page

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]
ID = quote("crawl/tenant-17")
OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


def fill() -> dict[str, Message]:
    """Groups as an operator meets them on a bad morning."""
    made = {}
    Group.objects.limit("crawl", "tenant-17", 3)
    for number in range(12):
        made[f"crawl {number}"] = Message.objects.enqueue(
            {"n": number}, queue="crawl", group="tenant-17", key=f"https://example.org/a/rather/long/page/{number}"
        )
    claim_one("crawl").nack(delay=90, error="TimeoutError: example.org")
    claim_one("crawl")
    for number in range(4):
        made[f"ledger {number}"] = Message.objects.enqueue(number, queue="ledger", group="customer-7")
    claim_one("ledger").reject("no such account")
    for number in range(30):
        Message.objects.enqueue(number, queue="sync", group=f"f81d4fae-7dec-11d0-a765-00a0c91e6bf6-{number % 20:02}")
    Message.objects.enqueue(1, queue="sync", group="x" * 200)
    Group.objects.pause("sync", "acme", by="ann", reason="their server is down until the end of the week")
    return made


def test_no_page_of_groups_is_wider_than_its_window(page: Page, settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {"ledger": {"on_dead": "hold"}}}
    made = fill()
    pages = {
        "list": url("changelist", model="group"),
        "group": url("change", ID, model="group"),
        "longest name": url("change", quote(f"sync/{'x' * 200}"), model="group"),
        "limit": url("limit", ID, model="group"),
        "pause": url("pause", ID, model="group"),
        "message": url("change", made["ledger 1"].pk),
        "messages": url("changelist") + "?state=waiting",
        "queues": url("changelist", model="queue"),
        "dashboard": "/admin/django_dbqueue/",
    }
    page.log_in()
    size = page.driver.get_window_size()
    wider = {}
    try:
        for width, height in ((1400, 900), (390, 844)):
            page.driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
            )
            for name, path in pages.items():
                page.open(path)
                page.shot(f"groups_{width}_{name.replace(' ', '_')}")
                if over := page.driver.execute_script(OVERFLOW):
                    wider[f"{name} at {width}"] = over
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert page.driver.get_window_size() == size
    assert wider == {}
    assert page.complaints() == []


def test_an_operator_limits_and_pauses_a_group_and_opens_what_holds_it(page: Page, settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {"ledger": {"on_dead": "hold"}}}
    made = fill()
    page.log_in()
    page.open(url("changelist", model="group"))
    page.click(f'a[href*="{ID}"]')
    page.click(".dbqueue-verb-limit")
    page.wait_for_focus('input[name="limit"]')
    page.press(Keys.END + Keys.BACKSPACE + "5")
    page.enter()
    assert "has the limit 5" in page.text
    assert Group.objects.get(name="tenant-17").width == 5
    page.click(".dbqueue-verb-pause")
    page.wait_for_focus('input[name="reason"]')
    page.press("too many complaints")
    page.enter()
    assert Group.objects.get(name="tenant-17").is_paused
    assert "PAUSED" in page.text.upper()

    page.open(url("change", made["ledger 1"].pk))
    dead = made["ledger 0"].pk
    assert f"#{dead} is dead, and holds its group customer-7" in page.text
    page.click(".dbqueue-why-behind")
    page.click(".dbqueue-why-requeue")
    page.click('input[type="submit"].default')
    assert Message.objects.ready("ledger").get().pk == dead
    assert page.complaints() == []
