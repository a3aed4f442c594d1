"""A person drops a group of failures and stops it half-way, by mouse and by keyboard; real workers take the steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue import Envelope
from django_dbqueue.models import BulkOperation, Failure, Message
from django_dbqueue.operations import bulk
from tests.admin.conftest import url
from tests.operations.orders import OPERATIONS, counts
from tests.process.conftest import start_worker

if TYPE_CHECKING:
    from tests.admin.browser import Page

__all__ = ["start_worker"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]

NUMBER = 4 * bulk.STEP + 100


class CardDeclined(Exception):
    """What many messages failed on after a bad deploy."""


def fail_many(number: int = NUMBER) -> None:
    """As a worker would: claimed, failed, dead."""
    Message.objects.enqueue_many((Envelope({"order": n}, max_reads=1) for n in range(number)), queue="payments")
    Message.objects.enqueue_many((Envelope({"order": n}, max_reads=1) for n in range(3)), queue="mail")
    for queue, error in (("payments", CardDeclined("card 17 was declined")), ("mail", TimeoutError("no answer"))):
        while messages := Message.objects.claim(500, queue=queue):
            with pytest.raises(type(error)) as raised:
                raise error
            assert not Message.objects.nack(messages, error=raised.value)


def take_steps(start_worker: Callable[..., Any], number: int) -> None:
    """Let a worker take that many steps, and no more."""
    worker = start_worker("--queues", OPERATIONS, "--max-messages", str(number))
    assert worker.ended() == 0, worker.output


def complaints(page: Page) -> list[str]:
    return [line for line in page.complaints() if "Content Security Policy" in line or "SEVERE" in line]


def assert_stopped_half_way(moved: int, start_worker: Callable[..., Any]) -> None:
    operation = BulkOperation.objects.get()
    assert counts(operation) == ("stopped", moved, 0)
    worker = start_worker("--queues", OPERATIONS, "--drain")
    assert worker.ended() == 0, worker.output
    assert counts(operation) == ("stopped", moved, 0)
    assert Message.objects.done("payments").count() == moved
    assert Message.objects.dead("payments").count() == NUMBER - moved
    assert Message.objects.dead("mail").count() == 3


def test_a_person_drops_a_group_of_failures_and_stops_it_half_way(page: Page, start_worker: Callable[..., Any]) -> None:
    fail_many()
    page.log_in()
    page.open(url("changelist", model="failure"))
    page.shot("failures_of_two_kinds")
    failure = Failure.objects.get(queue="payments")
    page.click(f'a[href*="/failure/{failure.pk}/change/"]')
    assert "CardDeclined" in page.text
    page.shot("failure")
    page.click(".dbqueue-verb-drop")
    assert f"{NUMBER:,} messages" in page.text
    page.find('input[name="reason"]').send_keys("paid by hand")
    page.shot("bulk_dry_run")
    page.click('input[type="submit"].default')
    assert f"0 of {NUMBER:,} moved" in page.text
    take_steps(start_worker, 2)
    page.see(f"{2 * bulk.STEP:,} of {NUMBER:,} moved")
    assert page.find("#dbqueue-progress").get_attribute("value") == str(2 * bulk.STEP)
    page.picture("bulk_progress")
    page.click(".dbqueue-stop")
    assert "Stopped. Messages that were already moved stay moved." in page.text
    assert "Stopped by op." in page.text
    page.shot("bulk_stopped")
    assert_stopped_half_way(2 * bulk.STEP, start_worker)
    page.open(url("changelist", model="bulkoperation"))
    page.shot("bulk_operations")
    assert complaints(page) == []


def test_by_keyboard_alone_the_focus_stays_on_the_stop_button_while_the_page_refreshes(
    page: Page, start_worker: Callable[..., Any]
) -> None:
    fail_many()
    page.log_in()
    page.open(url("changelist", model="failure"))
    failure = Failure.objects.get(queue="payments")
    page.tab_to(f'#result_list a[href*="/failure/{failure.pk}/change/"]')
    page.enter()
    page.tab_to(".dbqueue-verb-drop")
    page.enter()
    page.wait_for_focus('input[name="reason"]')
    page.press("paid by hand")
    page.enter()
    stop = page.tab_to(".dbqueue-stop")
    take_steps(start_worker, 1)
    page.see(f"{bulk.STEP} of {NUMBER:,} moved")
    assert page.driver.switch_to.active_element == stop
    page.enter()
    assert "Stopped by op." in page.text
    assert_stopped_half_way(bulk.STEP, start_worker)
    assert complaints(page) == []


def test_all_of_a_list_are_chosen_and_dropped_to_the_end(page: Page, start_worker: Callable[..., Any]) -> None:
    fail_many()
    page.log_in()
    page.open(url("changelist") + "?state=dead&queue=payments")
    page.find("#action-toggle").click()
    page.find(".actions .question a").click()
    page.find('select[name="action"] option[value="drop"]').click()
    page.click(".actions button[type=submit]")
    assert f"{NUMBER:,} messages" in page.text
    page.find('input[name="reason"]').send_keys("paid by hand")
    page.enter()
    start_worker()
    page.see(f"{NUMBER:,} of {NUMBER:,} moved")
    page.until(lambda: "done" in page.find("#dbqueue-state").text, "the end")
    page.until(
        lambda: not page.driver.find_elements("css selector", "[data-dbqueue-running]"), "the end of its refreshes"
    )
    assert not Message.objects.dead("payments").exists()
    assert complaints(page) == []
