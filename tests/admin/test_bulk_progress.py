"""Bulk operations on their way: progress, stop, the log, and what holds them up."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.test import Client

from django_dbqueue.models import BulkOperation, Message, Worker
from django_dbqueue.operations import bulk
from tests.admin.bulk_orders import choose_all, confirm, fill, notice, ordered
from tests.admin.conftest import url
from tests.factories import waiting
from tests.operations.orders import OPERATIONS, counts, go_on, next_step

pytestmark = pytest.mark.django_db


def progress(client: Client, operation: BulkOperation) -> str:
    text = client.get(url("change", operation.pk, model="bulkoperation")).content.decode()
    return re.sub(r"\s+", " ", text)


def test_the_progress_page_shows_how_far_it_has_come(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_operation_can_be_stopped_half_way_and_names_who_did(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STEP", 20)
    fill(60)
    operation = ordered(browser)
    next_step()
    response = browser.post(url("stop", operation.pk, model="bulkoperation"))
    assert "Stopped" in notice(browser, response)
    assert counts(go_on(operation)) == ("stopped", 20, 0)
    assert Message.objects.dead("q").count() == 40
    assert "Stopped by op" in progress(browser, operation)
    response = browser.post(url("stop", operation.pk, model="bulkoperation"))
    assert "already ended" in notice(browser, response)
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


def test_pages_show_when_no_worker_serves_operations(browser: Client) -> None:
    fill(60)
    assert "No worker serves the queue dbqueue.operations" in choose_all(browser).content.decode()
    operation = ordered(browser)
    assert "No worker serves the queue dbqueue.operations" in progress(browser, operation)
    serve("q", OPERATIONS)
    assert "No worker serves" not in choose_all(browser).content.decode()
    assert "No worker serves" not in progress(browser, operation)


def test_the_progress_page_shows_when_the_next_step_is_dead_or_gone(browser: Client) -> None:
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


def test_counts_beyond_the_cap_are_marked_as_more(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert "select its messages one by one" in notice(browser, response)
    assert BulkOperation.objects.count() == 1


def test_a_search_is_still_confirmed_message_by_message(browser: Client) -> None:
    message = waiting(queue="q", key="k")
    response = choose_all(browser, "drop", "?q=k")
    assert [entry["row"].pk for entry in response.context["entries"]] == [message.pk]
