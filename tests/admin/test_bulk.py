"""Ordering a verb for all that match, watching it, stopping it: what each page shows, and whom it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client

from django_dbqueue import Envelope
from django_dbqueue.models import BulkOperation, Message
from tests.admin.bulk_orders import choose_all, confirm, fill, group_of, notice, ordered, untouched
from tests.admin.conftest import url
from tests.admin.failing import failed
from tests.factories import waiting
from tests.operations.orders import counts, go_on

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.django_db


def test_choosing_all_of_a_list_leads_to_a_page_with_their_count_that_changes_nothing(browser: Client) -> None:
    fill(60)
    page = choose_all(browser)
    text = page.content.decode()
    assert "<strong>60 messages</strong>" in text
    assert "Dead letters of queue q" in text
    assert Message.objects.dead("q").count() == 60
    assert untouched()


def test_choosing_one_page_of_a_list_lists_its_messages_as_before(browser: Client) -> None:
    fill(3)
    ids = list(Message.objects.dead("q").values_list("pk", flat=True))
    response = browser.post(
        url("changelist") + "?state=dead&queue=q", {"action": "drop", "_selected_action": ids, "index": 0}
    )
    assert response.context["verb"].name == "drop"
    assert len(response.context["entries"]) == 3


def test_confirming_orders_what_was_shown_and_a_worker_does_it(browser: Client) -> None:
    fill(60)
    fill(5, "other")
    operation = ordered(browser)
    assert Message.objects.dead("q").count() == 60, "nothing is done by the page itself"
    assert counts(go_on(operation)) == ("done", 60, 0)
    assert Message.objects.done("q").filter(error__endswith="by op: a bad deploy").count() == 60
    assert Message.objects.dead("other").count() == 5


@pytest.mark.parametrize(("verb", "state"), [("requeue", "dead"), ("reject", "ready"), ("send-again", "dead")])
def test_every_verb_that_fits_the_state_can_be_ordered(browser: Client, verb: str, state: str) -> None:
    fill(2)
    Message.objects.enqueue_many(range(2), queue="q")
    operation = ordered(browser, verb, f"?state={state}&queue=q")
    assert counts(go_on(operation)) == ("done", 2, 0)


def test_all_that_are_delayed_are_made_due_now(browser: Client) -> None:
    Message.objects.enqueue_many([Envelope(number, delay=3600) for number in range(3)], queue="q")
    operation = ordered(browser, "due-now", "?state=delayed&queue=q")
    assert counts(go_on(operation)) == ("done", 3, 0)
    assert Message.objects.ready("q").count() == 3


def test_all_of_a_queue_are_moved_to_the_one_that_is_named(browser: Client) -> None:
    fill(60)
    waiting(queue="there")
    page = choose_all(browser, "move")
    assert confirm(browser, page, "move", queue="thier").context["form"].errors
    assert untouched()
    operation_page = confirm(browser, page, "move", queue="there")
    operation = BulkOperation.objects.get()
    assert counts(go_on(operation)) == ("done", 60, 0)
    assert operation.steps > 1, "they go fifty at a time"
    assert (Message.objects.dead("q").count(), Message.objects.ready("there").count()) == (0, 61)
    assert "Move: Dead letters of queue q → there" in browser.get(operation_page.url).content.decode()


def test_a_verb_that_does_not_fit_the_state_is_not_ordered(browser: Client) -> None:
    fill(60)
    response = choose_all(browser, "release")
    assert "can't be done" in notice(browser, response)
    assert untouched()


def test_the_dead_of_a_failure_are_dropped_and_no_others(browser: Client) -> None:
    mine, others = failed(), failed(queue="mail")
    waiting(queue="shop")
    page = browser.get(url("drop", group_of("shop").pk, model="failure"))
    operation_page = confirm(browser, page)
    operation = BulkOperation.objects.get()
    assert operation_page.url == url("change", operation.pk, model="bulkoperation")
    assert counts(go_on(operation)) == ("done", 1, 0)
    assert Message.objects.done().filter(pk=mine.pk).exists()
    assert Message.objects.dead("mail").get().pk == others.pk


def test_a_verb_that_asks_for_a_reason_is_not_ordered_without_one(browser: Client) -> None:
    fill(60)
    page = choose_all(browser)
    again = confirm(browser, page, reason=" ")
    assert again.status_code == 200
    assert again.context["form"].errors
    assert untouched()
    assert confirm(browser, again).status_code == 302
