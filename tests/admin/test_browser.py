"""The admin in a real browser, under a strict policy, by mouse and by keyboard.

Screenshots go where DBQUEUE_TEST_SCREENSHOTS says, else into the test's temporary directory.
"""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import override_settings
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from django_dbqueue.models import Message, Queue, QueueStatistic, Worker
from tests.admin.conftest import make_dead, make_done, make_stuck, url

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CHROMEDRIVER = shutil.which("chromedriver")
EVIL = '</pre><script>alert("pwned")</script><img src=x onerror=alert(1)>'

pytestmark = pytest.mark.django_db(transaction=True)


class Page:
    """What a person does at a browser."""

    def __init__(self, driver: Any, base: str, shots: Path) -> None:
        self.driver = driver
        self.base = base
        self.shots = shots

    def open(self, path: str) -> None:
        self.driver.get(self.base + path)

    def find(self, selector: str) -> Any:
        return WebDriverWait(self.driver, 20).until(lambda d: d.find_element(By.CSS_SELECTOR, selector))

    def click(self, selector: str) -> None:
        """Click, and wait until the next page has replaced this one."""
        here = self.find("html")
        self.find(selector).click()
        self.wait_until_gone(here)

    def press(self, key: str) -> Any:
        """Press a key where the focus is, and return the element that has it then."""
        self.driver.switch_to.active_element.send_keys(key)
        return self.driver.switch_to.active_element

    def tab_to(self, selector: str) -> Any:
        """Walk by the Tab key to an element; fail when the keyboard can't get there."""
        wanted = self.find(selector)
        for _ in range(120):
            if self.driver.switch_to.active_element == wanted:
                return wanted
            self.driver.switch_to.active_element.send_keys(Keys.TAB)
        raise AssertionError(f"Tab never reaches {selector}")

    def enter(self) -> None:
        """Press Enter, and wait until the next page has replaced this one."""
        here = self.find("html")
        self.press(Keys.ENTER)
        self.wait_until_gone(here)

    def wait_until_gone(self, element: Any) -> None:
        from selenium.webdriver.support.expected_conditions import staleness_of

        WebDriverWait(self.driver, 20).until(staleness_of(element))
        WebDriverWait(self.driver, 20).until(lambda d: d.execute_script("return document.readyState") == "complete")

    @property
    def text(self) -> str:
        return str(self.find("body").text)

    def shot(self, name: str) -> None:
        self.driver.save_screenshot(str(self.shots / f"{name}.png"))

    def complaints(self) -> list[str]:
        """What the browser's console says of this page, the policy's violations among it."""
        return [line["message"] for line in self.driver.get_log("browser") if "favicon" not in line["message"]]


@pytest.fixture
def page(live_server: Any, tmp_path: Path) -> Iterator[Page]:
    User.objects.create_superuser("op", password="secret")
    options = webdriver.ChromeOptions()
    assert CHROMIUM, "chromium is not installed: bin/test installs it"
    assert CHROMEDRIVER, "chromedriver is not installed: bin/test installs it"
    options.binary_location = CHROMIUM
    for flag in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "disable-dev-shm-usage",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "window-size=1280,900",
        f"user-data-dir={tmp_path / 'profile'}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    shots = Path(os.environ.get("DBQUEUE_TEST_SCREENSHOTS", tmp_path))
    shots.mkdir(parents=True, exist_ok=True)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(CHROMEDRIVER))
    apps = ["django_dbqueue", *(app for app in settings.INSTALLED_APPS if app != "django_dbqueue")]
    try:
        with override_settings(MIDDLEWARE=["tests.admin.csp.strict_policy", *settings.MIDDLEWARE], INSTALLED_APPS=apps):
            yield Page(driver, live_server.url, shots)
    finally:
        driver.quit()


def log_in(page: Page) -> None:
    page.open("/admin/")
    page.find("#id_username").send_keys("op" + Keys.TAB + "secret")
    page.enter()


def fill() -> dict[str, Message]:
    """A queue as an operator meets it on a bad morning."""
    worker = Worker.objects.create(
        id=7, host="worker-3.example", pid=4711, conn_id=99, queues="emails", threads=4, held=1
    )
    silent = Worker.objects.create(id=8, host="worker-4.example", pid=4712, queues="emails", threads=4, held=1)
    Worker.objects.filter(pk=silent.pk).update(beat_at=datetime.now(UTC) - timedelta(minutes=10))
    rows = {
        "done": make_done("emails", key="order-1"),
        "dead": make_dead("emails", key="order-2", reason=f"LookupError: no such user {EVIL}"),
        "stuck": make_stuck("emails", key="order-3"),
    }
    Message.objects.filter(pk=rows["stuck"].pk).update(worker_id=worker.pk)
    rows["running"] = Message.objects.enqueue({"to": "a@example.org"}, queue="emails", key="order-4")
    assert Message.objects.claim(1, queue="emails")
    rows["ready"] = Message.objects.enqueue(
        {"to": "b@example.org", "lines": [1, 2.5, None], "text": EVIL, "ü": "☃"},
        queue="emails",
        key=f"order-5 {EVIL}",
        headers={"trace": EVIL},
    )
    rows["delayed"] = Message.objects.enqueue({"to": "c"}, queue="emails", delay=5400, priority=5)
    Message.objects.enqueue_many(range(60), queue="reports.nightly")
    newest = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    times = {"wait_p50": 0.4, "wait_p95": 2.5, "wait_p99": 9.0, "run_p50": 0.05, "run_p95": 0.2, "run_p99": 1.5}
    QueueStatistic.objects.bulk_create(
        QueueStatistic(
            queue="emails", hour=newest - timedelta(hours=hours), messages=300 - 5 * hours, failures=hours,
            retries=hours, dead=hours, **times,
        )
        for hours in range(50)
    )  # fmt: skip
    return rows


def test_an_operator_walks_through_by_mouse_and_by_keyboard(page: Page) -> None:
    rows = fill()
    log_in(page)
    page.shot("index")
    assert "Stuck messages" in page.text  # from the index, too, where the app stands before the admin
    page.open("/admin/django_dbqueue/")
    page.shot("app_index")

    # By keyboard: to the stuck ones, tick it, choose requeue, confirm.
    page.tab_to('a[href$="?state=stuck"]')
    page.enter()
    assert "Stuck messages" in page.text
    page.shot("stuck")
    page.tab_to("input.action-select")
    page.press(Keys.SPACE)
    page.tab_to('select[name="action"]')
    Select(page.driver.switch_to.active_element).select_by_value("requeue")
    page.tab_to(".actions button")
    page.enter()
    page.shot("confirm_requeue")
    page.tab_to('input[type="submit"].default')
    page.enter()
    assert "Requeue: 1 message." in page.text
    assert Message.objects.ready("emails").filter(pk=rows["stuck"].pk).exists()

    # By mouse: the list, a message, reject it with a reason.
    page.open(url("changelist") + "?state=ready&queue=emails")
    page.shot("ready")
    page.click(f'a[href*="/message/{rows["ready"].pk}/change/"]')
    page.shot("detail")
    assert EVIL in page.text
    page.click(".dbqueue-verb-reject")
    page.shot("confirm_reject")
    page.find('input[name="reason"]').send_keys("wrong address")
    page.click('input[type="submit"].default')
    assert "Reject: 1 message." in page.text
    page.shot("detail_dead")
    assert Message.objects.get(pk=rows["ready"].pk).error == "Rejected by op: wrong address"

    # Pause a queue that has no row yet.
    page.open(url("changelist", model="queue"))
    page.shot("queues")
    page.click('a[href*="nightly/change/"]')
    page.click(".dbqueue-verb-pause")
    page.driver.switch_to.active_element.send_keys(f"the printer burns {EVIL}")
    page.shot("pause")
    page.enter()
    assert Queue.objects.get(pk="reports.nightly").is_paused
    page.shot("queue_paused")
    page.open(url("changelist", model="worker"))
    page.shot("workers")
    page.open(url("changelist", model="queuestatistic"))
    page.shot("statistics")
    assert page.find("rect.dbqueue-bar").size["height"] > 0
    assert not [line for line in page.complaints() if "Content Security Policy" in line or "SEVERE" in line]


def test_lists_are_read_in_the_dark_too(page: Page) -> None:
    rows = fill()
    page.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    log_in(page)
    for state in ("dead", "running", "delayed", "done"):
        page.open(url("changelist") + f"?state={state}")
        page.shot(f"dark_{state}")
    page.open(url("change", rows["dead"].pk))
    page.shot("dark_detail")
    page.open(url("changelist", model="queue"))
    page.shot("dark_queues")
