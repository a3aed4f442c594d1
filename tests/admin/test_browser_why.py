"""In a real browser: a person finds why a message is stuck, and requeues it; by mouse, and by keyboard alone."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from django_dbqueue.models import Message, MessageEvent, Queue, Worker
from django_dbqueue.models.fields import DbNow
from tests.admin.conftest import make_stuck, url
from tests.factories import claim_one

if TYPE_CHECKING:
    from tests.admin.browser import Page

EVIL = '</pre><script>alert("pwned")</script><img src=x onerror=alert(1)>'

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]


def stuck_in_the_night(what: str = "the connection") -> Message:
    """It failed once, and then its worker fell silent; now its lease is over."""
    worker = Worker.objects.create(
        id=7, host="worker-3.example", pid=4711, conn_id=99, queues="emails", threads=4, held=1,
        beat_at=DbNow() - timedelta(minutes=10),
    )  # fmt: skip
    message = Message.objects.enqueue({"to": "a@example.org"}, queue="emails", key="order-4")
    Message.objects.filter(pk=message.pk).update(created_at=DbNow() - timedelta(minutes=30))
    first = claim_one("emails")
    Message.objects.filter(pk=message.pk).update(worker_id=worker.pk, claimed_at=DbNow() - timedelta(minutes=20))
    first.nack(error=f"ConnectionError: mail.example refused {what}")
    MessageEvent.objects.update(at=DbNow() - timedelta(minutes=19))
    claim_one("emails")
    Message.objects.filter(pk=message.pk).update(
        worker_id=worker.pk, available_at=DbNow() - timedelta(minutes=9), claimed_at=DbNow() - timedelta(minutes=10)
    )
    return message


def test_a_person_finds_why_a_message_is_stuck_and_requeues_it_by_mouse(page: Page) -> None:
    message = stuck_in_the_night(EVIL)
    page.log_in()
    page.click('a[href$="?state=stuck"]')
    page.click(f'a[href*="/message/{message.pk}/change/"]')
    answer = page.find(".dbqueue-why").text
    assert "It is stuck: its lease has expired" in answer
    assert "worker-3.example:4711" in answer
    assert re.search(r"Its lease expired (9|1\d) min.* ago", answer)
    assert "No worker serves the queue" in answer
    life = page.find(".dbqueue-life").text
    assert "by worker worker-3.example:4711, session " in life
    assert "ConnectionError: mail.example refused" in life
    assert EVIL in life
    page.click("a.dbqueue-why-requeue")
    assert "Requeue: 1 message" in page.text
    page.click('input[type="submit"].default')
    assert "Requeue: 1 message." in page.text
    page.shot("why_requeued")
    assert Message.objects.ready("emails").filter(pk=message.pk).exists()
    assert "Requeued, as if new" in page.find(".dbqueue-life").text
    assert "by op" in page.find(".dbqueue-life").text
    assert page.find(".dbqueue-why-answer").get_attribute("data-why") == "workers_silent"
    assert page.complaints() == []


def test_a_person_does_the_same_by_keyboard_alone(page: Page) -> None:
    message = stuck_in_the_night()
    page.log_in()
    page.tab_to('a[href$="?state=stuck"]')
    page.enter()
    page.tab_to(f'a[href*="/message/{message.pk}/change/"]')
    page.enter()
    assert "It is stuck: its lease has expired" in page.find(".dbqueue-why").text
    page.tab_to("a.dbqueue-why-requeue")
    page.picture("why_is_it_stuck")  # in docs/console.md
    page.enter()
    page.tab_to('input[type="submit"].default')
    page.enter()
    assert "Requeue: 1 message." in page.text
    assert Message.objects.ready("emails").filter(pk=message.pk).exists()
    page.driver.execute_script("arguments[0].scrollIntoView()", page.find(".dbqueue-life"))
    page.picture("life_of_a_message")  # in docs/console.md
    assert page.complaints() == []


def test_a_paused_queue_is_resumed_from_the_message_that_waits_for_it(page: Page) -> None:
    message = Message.objects.enqueue(1, queue="reports.nightly")
    Queue.objects.pause("reports.nightly", by="ann", reason=f"the printer burns {EVIL}")
    page.log_in()
    page.go_dark()
    page.open(url("change", message.pk))
    page.shot("why_paused_dark")
    assert f"by ann: the printer burns {EVIL}" in page.find(".dbqueue-why").text
    page.tab_to("a.dbqueue-why-resume")
    page.enter()
    page.tab_to('input[type="submit"].default')
    page.enter()
    assert not Queue.objects.get(pk="reports.nightly").is_paused
    page.open(url("change", message.pk))
    assert page.find(".dbqueue-why-answer").get_attribute("data-why") in {"no_worker", "no_consumer"}
    assert page.complaints() == []


def test_the_parts_of_the_page_have_headings_that_name_them(page: Page) -> None:
    message = make_stuck("emails")
    page.log_in()
    page.open(url("change", message.pk))
    headings = [each.text for each in page.driver.find_elements("css selector", "#content-main h2")]
    assert "stuck" in headings[0]
    assert "Life of the message" in headings
    for section in page.driver.find_elements("css selector", "section.module"):
        assert page.find(f"#{section.get_attribute('aria-labelledby')}").text
    badges = page.driver.find_elements("css selector", "ol.dbqueue-steps > li .dbqueue-badge")
    assert [badge.text for badge in badges] == ["● Sent", "▶ Claimed"]
    assert page.complaints() == []
