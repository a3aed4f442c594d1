"""Tasks in a real browser: found in the list by their filter, and read on their page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_dbqueue.models import Message
from tests.admin.conftest import make_dead, url
from tests.admin.test_tasks import PATH, enqueue, fail

if TYPE_CHECKING:
    from tests.admin.browser import Page

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]

LONG = "shop.billing.reports.tasks.send_the_monthly_statement_to_each_customer"


def charge(card: str) -> None:
    raise ConnectionError(f"the bank did not answer for {card}")


def test_an_operator_finds_the_messages_of_a_task_and_reads_its_attempts(page: Page) -> None:
    failing = enqueue(PATH)
    for _ in range(3):
        try:
            charge("card 4711")
        except ConnectionError as error:
            fail(failing, error)
    enqueue(LONG, queue="reports.nightly")
    enqueue("shop.tasks.refund")
    Message.objects.enqueue({"to": "a@example.org"}, queue="emails")
    make_dead("emails", reason="LookupError: no such user")
    page.log_in()
    page.open(url("changelist") + "?state=ready")
    page.shot("tasks_list")
    page.click(f'a[href*="task={PATH}"]')
    page.shot("tasks_filtered")
    assert "1 message\n" in page.text
    assert "refund" not in page.find("#result_list").text
    page.click(f'a[href*="/message/{failing.pk}/change/"]')
    page.shot("tasks_page")
    assert page.text.count("the bank did not answer for card 4711") >= 3
    page.driver.execute_script("document.querySelector('.dbqueue-attempt').scrollIntoView()")
    page.shot("tasks_attempts")
    page.driver.execute_script("document.querySelector('.dbqueue-life').scrollIntoView()")
    page.shot("tasks_life")
    page.go_dark()
    page.open(url("changelist") + f"?q={failing.pk}")
    page.shot("tasks_search_dark")
    assert page.complaints() == []
