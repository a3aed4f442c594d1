"""The admin in a real browser, under a strict policy, by mouse and by keyboard."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from django_dbqueue.models import Message, Queue, QueueStatistic, Worker
from tests.admin.conftest import make_dead, make_done, make_stuck, url

if TYPE_CHECKING:
    from tests.admin.browser import Page

EVIL = '</pre><script>alert("pwned")</script><img src=x onerror=alert(1)>'

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]


def fill() -> dict[str, Message]:
    """A queue as an operator meets it on a bad morning."""
    worker = Worker.objects.create(
        id=7, host="worker-3.example", pid=4711, conn_id=99, queues="emails", threads=4, held=1
    )
    without_beats = Worker.objects.create(id=8, host="worker-4.example", pid=4712, queues="emails", threads=4, held=1)
    Worker.objects.filter(pk=without_beats.pk).update(beat_at=datetime.now(UTC) - timedelta(minutes=10))
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


def requeue_by_keyboard(page: Page, stuck: Message) -> None:
    """From the index to the stuck ones, tick it, choose requeue, confirm."""
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
    assert Message.objects.ready("emails").filter(pk=stuck.pk).exists()


def reject_by_mouse(page: Page, ready: Message) -> None:
    """The list, a message, reject it with a reason."""
    page.open(url("changelist") + "?state=ready&queue=emails")
    page.shot("ready")
    page.click(f'a[href*="/message/{ready.pk}/change/"]')
    page.shot("detail")
    assert EVIL in page.text
    page.click(".dbqueue-verb-reject")
    page.shot("confirm_reject")
    page.find('input[name="reason"]').send_keys("wrong address")
    page.click('input[type="submit"].default')
    assert "Reject: 1 message." in page.text
    page.shot("detail_dead")
    assert Message.objects.get(pk=ready.pk).error.endswith("by op: wrong address")


def pause_a_queue_that_has_no_row(page: Page) -> None:
    page.open(url("changelist", model="queue"))
    page.shot("queues")
    page.click('a[href*="nightly/change/"]')
    page.click(".dbqueue-verb-pause")
    page.wait_for_focus('input[name="reason"]')
    page.press(f"the printer burns {EVIL}")
    page.shot("pause")
    page.enter()
    assert Queue.objects.get(pk="reports.nightly").is_paused
    page.shot("queue_paused")


def test_an_operator_walks_through_by_mouse_and_by_keyboard(page: Page) -> None:
    rows = fill()
    page.log_in()
    page.shot("index")
    assert "Stuck messages" in page.text  # from the index, too
    page.open("/admin/django_dbqueue/")
    page.shot("app_index")
    requeue_by_keyboard(page, rows["stuck"])
    reject_by_mouse(page, rows["ready"])
    pause_a_queue_that_has_no_row(page)
    page.open(url("changelist", model="worker"))
    page.shot("workers")
    page.open(url("changelist", model="queuestatistic"))
    page.shot("statistics")
    assert page.complaints() == []


def test_lists_are_read_in_the_dark_too(page: Page) -> None:
    rows = fill()
    page.go_dark()
    page.log_in()
    for state in ("dead", "running", "delayed", "done"):
        page.open(url("changelist") + f"?state={state}")
        page.shot(f"dark_{state}")
    page.open(url("change", rows["dead"].pk))
    page.shot("dark_detail")
    page.open(url("changelist", model="queue"))
    page.shot("dark_queues")


def test_the_policy_that_the_pages_are_tried_under_is_in_force(page: Page) -> None:
    page.log_in()
    page.driver.execute_script(
        "const script = document.createElement('script'); script.textContent = 'window.ran = true';"
        "document.body.append(script); document.body.setAttribute('style', 'color: red')"
    )
    assert page.driver.execute_script("return window.ran") is None
    assert len([line for line in page.complaints() if "Content Security Policy" in line]) == 2
