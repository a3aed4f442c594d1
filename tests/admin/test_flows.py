"""The page Flows: how far each is, and where its messages are (P22)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from django_dbqueue import flow
from django_dbqueue.models import Flow, Message
from tests.factories import QUEUE, claim_one

pytestmark = pytest.mark.django_db(transaction=True)


def text(browser: Client, *address: object) -> str:
    page = reverse(f"admin:django_dbqueue_flow_{address[0]}", args=address[1:])
    return " ".join(browser.get(page).content.decode().split())


@pytest.fixture
def number() -> int:
    with flow("import 17") as f:
        parts = f.enqueue_many(range(2), queue=QUEUE)
        f.enqueue("last", queue=QUEUE, after=parts)
    claim_one().ack()
    claim_one().reject("no")
    return f.id


def test_the_list_shows_how_far_each_flow_is(browser: Client, number: int) -> None:
    shown = text(browser, "changelist")
    assert "import 17" in shown
    assert '<progress value="1" max="3" aria-label="1 of 3"></progress> 1 of 3' in shown
    assert "no such flow" not in shown
    page = reverse("admin:django_dbqueue_flow_changelist")
    assert "import 17" in browser.get(page, {"q": "PORT"}).content.decode()
    assert "import 17" not in browser.get(page, {"q": "other"}).content.decode()


def test_a_page_shows_its_messages_by_queue_and_state(browser: Client, number: int) -> None:
    shown = text(browser, "change", number)
    for state in ("done", "dead", "waiting"):
        assert state in shown
    dead = Flow.objects.get(pk=number).progress().stages[0]
    assert dead.state == "dead"
    assert reverse("admin:django_dbqueue_message_change", args=[dead.first]) in shown


def cancel_url(number: int) -> str:
    return reverse("admin:django_dbqueue_flow_cancel", args=[number])


def test_an_operator_cancels_a_flow_which_is_logged_with_the_number_of_dropped_messages(
    browser: Client, operator: User, number: int
) -> None:
    assert cancel_url(number) in text(browser, "change", number)
    page = browser.get(cancel_url(number)).content.decode()
    assert "left: 1, dead: 1" in page
    assert not Flow.objects.get(pk=number).progress().all_finished, "a GET changes nothing"
    answer = browser.post(cancel_url(number), {"reason": "the wrong file"}, follow=True)
    assert f"Flow import 17 (#{number}) is cancelled: 2 messages were dropped." in answer.content.decode()
    assert cancel_url(number) not in answer.content.decode(), "nothing is left to cancel"
    assert Flow.objects.get(pk=number).progress().all_finished
    dropped = Message.objects.filter(flow=number, error__isnull=False)
    assert all(message.error.endswith("by op: the wrong file") for message in dropped)
    entry = LogEntry.objects.get()
    assert entry.user == operator
    assert "2 messages dropped: the wrong file" in entry.change_message
    assert entry.get_edited_object() == Flow.objects.get(pk=number)


def test_a_flow_is_not_cancelled_without_a_reason(browser: Client, number: int) -> None:
    answer = browser.post(cancel_url(number), {"reason": " "})
    assert answer.status_code == 200
    assert "This field is required." in answer.content.decode()
    assert not Flow.objects.get(pk=number).progress().all_finished
    assert not LogEntry.objects.exists()


def test_what_has_ended_is_not_cancelled_again(browser: Client, number: int) -> None:
    Flow.objects.cancel(number)
    assert "There is nothing to do" in browser.get(cancel_url(number)).content.decode()
    answer = browser.post(cancel_url(number), {"reason": "twice"}, follow=True)
    assert "Nothing was left to cancel" in answer.content.decode()
    assert not LogEntry.objects.exists()


def test_who_lacks_the_permission_is_not_offered_it_and_may_not(
    client_with: Callable[..., Client], number: int
) -> None:
    for client in (client_with("view_flow", "drop_message"), client_with("cancel_flow")):
        assert client.get(cancel_url(number)).status_code == 403
        assert client.post(cancel_url(number), {"reason": "x"}).status_code == 403
    assert cancel_url(number) not in text(client_with("view_flow"), "change", number)
    assert not Flow.objects.get(pk=number).progress().all_finished
    client = client_with("view_flow", "cancel_flow")
    assert cancel_url(number) in text(client, "change", number)
    client.post(cancel_url(number), {"reason": "x"})
    assert Flow.objects.get(pk=number).progress().all_finished


def test_a_flow_that_is_not_there_is_not_found(browser: Client, number: int) -> None:
    assert browser.get(cancel_url(number + 1)).status_code == 404
    assert browser.post(cancel_url(10**30), {"reason": "x"}).status_code == 404
    assert browser.put(cancel_url(number)).status_code == 405
