"""Ordering a verb for all that match, watching it, stopping it: what each page shows, and whom it refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.auth.models import Permission, User
from django.core import signing
from django.test import Client

from django_dbqueue.admin import ordering
from django_dbqueue.lifecycle import bulk
from django_dbqueue.models import BulkOperation, Failure, Message, Worker
from tests.admin.conftest import url
from tests.admin.test_failures import failed
from tests.bulk.orders import OPERATIONS, counts, go_on, next_step
from tests.factories import waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpResponse

pytestmark = pytest.mark.django_db
VERBS = ("requeue", "release", "reject", "send-again", "drop")
PERMISSIONS = {"requeue": "requeue", "release": "release", "reject": "reject", "send-again": "resend", "drop": "drop"}


def fill(number: int = 60, queue: str = "q") -> None:
    Message.objects.enqueue_many(range(number), queue=queue)
    Message.objects.ready(queue).reject_waiting("broken")


def choose_all(client: Client, verb: str = "drop", query: str = "?state=dead&queue=q") -> Any:
    """What the browser sends after 'Select all 60 messages'."""
    some = Message.objects.order_by("pk").first()
    data = {
        "action": verb.replace("-", "_"),
        "select_across": "1",
        "index": 0,
        "_selected_action": [some.pk if some else 1],
    }
    return client.post(url("changelist") + query, data)


def confirm(client: Client, page: Any, verb: str = "drop", **more: str) -> Any:
    data = {"ticket": page.context["ticket"], "reason": "a bad deploy", **more}
    return client.post(url(f"order_{verb}", model="bulkoperation"), data)


def ordered(client: Client, verb: str = "drop", query: str = "?state=dead&queue=q") -> BulkOperation:
    response = confirm(client, choose_all(client, verb, query), verb)
    operation = BulkOperation.objects.latest("pk")
    assert response.url == url("change", operation.pk, model="bulkoperation")
    return operation


def said(client: Client, response: HttpResponse) -> str:
    """What the page that a POST leads to says on top."""
    page = client.get(response["Location"])
    return " ".join(str(message) for message in page.context["messages"])


def untouched() -> bool:
    return not BulkOperation.objects.exists() and not Message.objects.in_queue(OPERATIONS).exists()


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
    assert Message.objects.done("q").filter(error="Dropped by op: a bad deploy").count() == 60
    assert Message.objects.dead("other").count() == 5


@pytest.mark.parametrize(("verb", "state"), [("requeue", "dead"), ("reject", "ready"), ("send-again", "dead")])
def test_every_verb_that_fits_the_state_can_be_ordered(browser: Client, verb: str, state: str) -> None:
    fill(2)
    Message.objects.enqueue_many(range(2), queue="q")
    operation = ordered(browser, verb, f"?state={state}&queue=q")
    assert counts(go_on(operation)) == ("done", 2, 0)


def test_a_verb_that_does_not_fit_the_state_is_not_ordered(browser: Client) -> None:
    fill(60)
    response = choose_all(browser, "release")
    assert "can't be done" in said(browser, response)
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


def group_of(queue: str) -> Failure:
    return Failure.objects.get(queue=queue)


def test_a_verb_that_asks_for_a_reason_is_not_ordered_without_one(browser: Client) -> None:
    fill(60)
    page = choose_all(browser)
    again = confirm(browser, page, reason=" ")
    assert again.status_code == 200
    assert again.context["form"].errors
    assert untouched()
    assert confirm(browser, again).status_code == 302


# -- stale pages --------------------------------------------------------------------------------------------


def test_a_page_orders_once(browser: Client) -> None:
    fill(60)
    page = choose_all(browser)
    confirm(browser, page)
    response = confirm(browser, page)
    assert "confirmed already" in said(browser, response)
    assert BulkOperation.objects.count() == 1
    assert Message.objects.in_queue(OPERATIONS).count() == 1


def test_a_page_whose_messages_all_moved_meanwhile_is_refused(browser: Client) -> None:
    fill(60)
    page = choose_all(browser)
    Message.objects.dead("q").requeue()
    assert "nothing is left to do" in said(browser, confirm(browser, page))
    assert untouched()
    assert Message.objects.ready("q").count() == 60


def test_what_died_anew_after_the_page_was_shown_is_left_alone(browser: Client) -> None:
    fill(3)
    page = choose_all(browser)
    again = Message.objects.dead("q").first()
    assert again is not None
    Message.objects.filter(pk=again.pk).requeue()
    Message.objects.filter(pk=again.pk).reject_waiting("once more")
    confirm(browser, page)
    go_on(BulkOperation.objects.get())
    assert Message.objects.dead("q").get().pk == again.pk


def test_what_came_after_the_page_was_shown_is_left_alone(browser: Client) -> None:
    fill(3)
    page = choose_all(browser)
    fill(4)
    confirm(browser, page)
    assert counts(go_on(BulkOperation.objects.get())) == ("done", 3, 0)
    assert Message.objects.dead("q").count() == 4


def test_a_page_is_too_old_after_an_hour(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(60)
    page = choose_all(browser)
    monkeypatch.setattr(ordering, "FRESH_FOR", -1)
    assert "too old" in said(browser, confirm(browser, page))
    assert untouched()


@pytest.mark.parametrize("how", ["none", "garbage", "forged", "for another verb", "of somebody else"])
def test_a_page_that_we_did_not_make_for_this_is_refused(browser: Client, how: str) -> None:
    fill(60)
    page = choose_all(browser)
    ticket = page.context["ticket"]
    verb = "requeue" if how == "for another verb" else "drop"
    if how == "of somebody else":
        User.objects.create_superuser("other")
        browser.force_login(User.objects.get(username="other"))
    forged = signing.dumps({"number": "1", "user": "1", "verb": "drop", "selection": "{}", "count": 1, "back": ""})
    sent = {"none": "", "garbage": "x:y:z", "forged": forged}.get(how, ticket)
    response = confirm(browser, page, verb, ticket=sent)
    assert response.status_code == 302
    assert untouched()
    assert Message.objects.dead("q").count() == 60


# -- permissions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_needs_its_own_permission_by_form_and_by_hand(client_with: Callable[..., Client], verb: str) -> None:
    fill(60)
    others = [f"{name}_message" for known, name in PERMISSIONS.items() if known != verb]
    client = client_with("view_message", "view_failure", "view_bulkoperation", *others)
    choose_all(client, verb)
    by_hand = client.post(url(f"order_{verb}", model="bulkoperation"), {"ticket": "x", "reason": "x"})
    assert by_hand.status_code == 403
    assert untouched()
    failed()
    for name in {"requeue", "drop"} & {verb}:
        assert client.get(url(name, group_of("shop").pk, model="failure")).status_code == 403


def test_a_permission_that_was_taken_between_page_and_confirmation_counts(client_with: Callable[..., Client]) -> None:
    fill(60)
    client = client_with("view_message", "drop_message")
    page = choose_all(client)
    User.objects.get().user_permissions.remove(Permission.objects.get(codename="drop_message"))
    assert confirm(client, page).status_code == 403
    assert untouched()


def test_a_group_of_failures_needs_the_permission_to_see_failures_at_its_confirmation_too(
    client_with: Callable[..., Client],
) -> None:
    failed()
    client = client_with("view_message", "drop_message", "view_failure")
    page = client.get(url("drop", group_of("shop").pk, model="failure"))
    User.objects.get().user_permissions.remove(Permission.objects.get(codename="view_failure"))
    assert confirm(client, page).status_code == 403
    assert untouched()


@pytest.mark.parametrize("verb", VERBS)
def test_an_order_is_no_get(browser: Client, verb: str) -> None:
    assert browser.get(url(f"order_{verb}", model="bulkoperation")).status_code == 405


def test_an_order_without_a_csrf_token_is_refused(operator: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(operator)
    assert client.post(url("order_drop", model="bulkoperation"), {"ticket": "x"}).status_code == 403


# -- progress and stop --------------------------------------------------------------------------------------


def progress(client: Client, operation: BulkOperation) -> str:
    text = client.get(url("change", operation.pk, model="bulkoperation")).content.decode()
    return re.sub(r"\s+", " ", text)


def test_the_progress_page_tells_how_far_it_has_come(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "STEP", 20)
    fill(60)
    operation = ordered(browser)
    assert "0 of 60 moved" in progress(browser, operation)
    assert next_step()
    text = progress(browser, operation)
    assert "20 of 60 moved" in text
    assert 'max="60" value="20"' in text
    assert "data-dbqueue-refresh" in text
    go_on(operation)
    text = progress(browser, operation)
    assert "60 of 60 moved" in text
    assert "data-dbqueue-refresh" not in text
    assert url("stop", operation.pk, model="bulkoperation") not in text
    assert "a bad deploy" in text


def test_an_operation_can_be_stopped_half_way_and_says_by_whom(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STEP", 20)
    fill(60)
    operation = ordered(browser)
    next_step()
    response = browser.post(url("stop", operation.pk, model="bulkoperation"))
    assert "Stopped" in said(browser, response)
    assert counts(go_on(operation)) == ("stopped", 20, 0)
    assert Message.objects.dead("q").count() == 40
    assert "Stopped by op" in progress(browser, operation)
    response = browser.post(url("stop", operation.pk, model="bulkoperation"))
    assert "ended already" in said(browser, response)
    assert LogEntry.objects.filter(action_flag=CHANGE, object_id=operation.pk).count() == 1


def test_stopping_has_its_own_permission(client_with: Callable[..., Client]) -> None:
    fill(60)
    owner = client_with("view_message", "drop_message")
    operation = ordered(owner)
    path = url("stop", operation.pk, model="bulkoperation")
    assert path not in progress(owner, operation)
    assert owner.post(path).status_code == 403
    assert client_with("stop_bulkoperation").post(path).status_code == 403
    assert counts(operation)[0] == "running"
    stopper = client_with("view_bulkoperation", "stop_bulkoperation")
    assert path in progress(stopper, operation)
    assert stopper.get(path).status_code == 405
    assert counts(operation)[0] == "running"
    assert stopper.post(path).status_code == 302
    assert counts(operation)[0] == "stopped"


def test_each_sees_what_he_ordered_himself_and_who_may_all(client_with: Callable[..., Client]) -> None:
    fill(60)
    owner = client_with("view_message", "drop_message")
    operation = ordered(owner)
    assert owner.get(url("change", operation.pk, model="bulkoperation")).status_code == 200
    assert owner.get(url("changelist", model="bulkoperation")).status_code == 403
    other = client_with("view_message", "drop_message", "stop_bulkoperation")
    assert other.get(url("change", operation.pk, model="bulkoperation")).status_code == 403
    viewer = client_with("view_bulkoperation")
    assert viewer.get(url("changelist", model="bulkoperation")).status_code == 200
    assert viewer.post(url("change", operation.pk, model="bulkoperation"), {"state": "done"}).status_code == 403


def test_order_stop_and_end_are_in_the_admin_log(browser: Client) -> None:
    fill(60)
    operation = go_on(ordered(browser))
    entries = LogEntry.objects.filter(object_id=operation.pk).order_by("pk")
    assert [entry.action_flag for entry in entries] == [ADDITION, CHANGE]
    assert "Drop" in entries[0].change_message
    assert "a bad deploy" in entries[0].change_message
    assert "60 moved" in entries[1].change_message


def serve(*queues: str) -> None:
    Worker.objects.create(id=1, host="h", pid=1, queues=",".join(queues), threads=1)


def test_pages_say_when_no_worker_serves_operations(browser: Client) -> None:
    fill(60)
    assert "No worker serves the queue dbqueue.operations" in choose_all(browser).content.decode()
    operation = ordered(browser)
    assert "No worker serves the queue dbqueue.operations" in progress(browser, operation)
    serve("q", OPERATIONS)
    assert "No worker serves" not in choose_all(browser).content.decode()
    assert "No worker serves" not in progress(browser, operation)


def test_the_progress_page_says_when_the_next_step_is_dead_or_gone(browser: Client) -> None:
    fill(60)
    serve(OPERATIONS)
    operation = ordered(browser)
    steps = Message.objects.in_queue(OPERATIONS)
    steps.reject_waiting("by hand")
    assert f"message #{operation.message_id}, is dead" in progress(browser, operation)
    steps.drop_all("by hand")
    assert "is gone" in progress(browser, operation)


def test_the_list_shows_the_newest_first(browser: Client) -> None:
    fill(60)
    first = go_on(ordered(browser))
    fill(60)
    second = ordered(browser)
    response = browser.get(url("changelist", model="bulkoperation"))
    assert [row.pk for row in response.context["cl"].result_list] == [second.pk, first.pk]
    assert "60 of 60 moved" in response.content.decode()


def test_evil_names_and_reasons_change_nothing_on_the_pages(browser: Client) -> None:
    evil = "<script>alert(1)</script>"
    fill(60)
    confirm(browser, choose_all(browser), reason=evil)
    operation = BulkOperation.objects.get()
    BulkOperation.objects.update(error=evil, ordered_by=evil)
    for path in (url("change", operation.pk, model="bulkoperation"), url("changelist", model="bulkoperation")):
        assert evil not in browser.get(path).content.decode()


def test_counts_beyond_the_cap_are_said_to_be_more(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "COUNTED", 50)
    monkeypatch.setattr(bulk.count, "__defaults__", (50,))
    fill(60)
    assert "<strong>50+ messages</strong>" in choose_all(browser).content.decode()
    operation = ordered(browser)
    assert "of 50+ moved" in progress(browser, operation)
    assert counts(go_on(operation)) == ("done", 60, 0)


def test_the_queue_of_operations_is_no_selection(browser: Client) -> None:
    fill(60)
    ordered(browser)
    response = choose_all(browser, "drop", f"?state=ready&queue={OPERATIONS}")
    assert "choose its messages one by one" in said(browser, response)
    assert BulkOperation.objects.count() == 1


def test_a_search_is_still_confirmed_message_by_message(browser: Client) -> None:
    message = waiting(queue="q", key="k")
    response = choose_all(browser, "drop", "?q=k")
    assert [entry["row"].pk for entry in response.context["entries"]] == [message.pk]
