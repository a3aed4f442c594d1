"""Failures by their kind: how often, when, where, an example; and what can be done about them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_dbqueue.admin.failure_texts import dotted
from django_dbqueue.insight import failure_groups
from django_dbqueue.models import BulkOperation, Message, MessageEvent
from django_dbqueue.models.fields import DbNow, clock
from django_dbqueue.operations import bulk
from django_dbqueue.sessions.django_session import DjangoSession
from tests.admin.conftest import url
from tests.admin.failing import fail_again, failed, group, page, pay, rows, send
from tests.factories import claim_one, held

pytestmark = pytest.mark.django_db


def test_failures_of_one_kind_are_one_line_with_count_place_and_example(browser: Client) -> None:
    first, second = failed(), failed()
    failed(send)
    text = page(browser)
    assert "tests.admin.failing.PaymentRefused" in text
    assert "tests.admin.failing.pay</code>" in text.replace("<wbr>", "")
    assert f"payment {second.pk} was refused</span>" in text
    by_kind = {row.place.rpartition(":")[2]: row.group for row in rows(browser)}
    assert (int(by_kind["pay"].count), int(by_kind["pay"].dead)) == (2, 2)
    assert by_kind["pay"].messages == (second.pk, first.pk)
    assert int(by_kind["send"].count) == 1


def test_the_last_seen_comes_first(browser: Client) -> None:
    failed(pay)
    failed(send)
    assert [row.place.rpartition(":")[2] for row in rows(browser)] == ["send", "pay"]
    failed(pay)
    assert [row.place.rpartition(":")[2] for row in rows(browser)] == ["pay", "send"]


def test_one_queue_is_chosen_by_its_name(browser: Client) -> None:
    failed(queue="shop")
    failed(queue="mail")
    assert {row.queue for row in rows(browser)} == {"shop", "mail"}
    assert {row.queue for row in rows(browser, "?queue=mail")} == {"mail"}


def test_only_what_is_dead_now_and_failed_so_last_counts_as_dead(browser: Client) -> None:
    requeued, otherwise, _dead = failed(), failed(), failed()
    failed(dead=False)
    Message.objects.filter(pk__in=[requeued.pk, otherwise.pk]).requeue()
    Message.objects.filter(pk=requeued.pk).drop_all("done by hand")
    fail_again(claim_one("shop"), send)
    [pay_group] = [row.group for row in rows(browser) if row.place.endswith(":pay")]
    assert (int(pay_group.count), int(pay_group.dead)) == (4, 1)


def test_counts_stop_at_the_cap_and_report_it(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_groups, "CAP", 2)
    for _ in range(3):
        failed()
    [row] = rows(browser)
    assert (str(row.group.count), str(row.group.dead)) == ("2+", "2+")
    assert not row.group.is_partial


def test_a_number_of_dead_below_the_cap_has_no_plus_but_shows_among_how_many(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be 0+ where the newest failures are all to be retried, and older ones may be dead."""
    monkeypatch.setattr(failure_groups, "CAP", 2)
    failed()
    for _ in range(2):
        failed(dead=False)
    [row] = rows(browser)
    assert (str(row.group.count), str(row.group.dead), row.group.is_partial) == ("2+", "0", True)
    text = page(browser)
    assert ">0+<" not in text
    assert "of the newest 2<" in text
    assert url("requeue", row.pk, model="failure") in text


def test_a_group_whose_events_are_forgotten_is_not_listed_but_has_its_page(browser: Client) -> None:
    failed()
    MessageEvent.objects.all().delete()
    assert rows(browser) == []
    assert browser.get(url("change", group().pk, model="failure")).status_code == 200


def test_the_time_of_the_failures_that_were_counted_is_shown(browser: Client) -> None:
    failed()
    MessageEvent.objects.update(at=clock("default") - timedelta(hours=3, minutes=1))
    failed()
    assert "in 3 h 1 min" in page(browser)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("shop/mail.py:send", "shop.mail.send"),
        ("shop/__init__.py:send", "shop.send"),
        ("shop/mail.py:<lambda>", "shop.mail.<lambda>"),
        ("shop.consumers.send", "shop.consumers.send"),
        ("/srv/my-app/run.py:main", "/srv/my-app/run.py:main"),
        ("signal 9 (SIGKILL)", "signal 9 (SIGKILL)"),
        ("", ""),
    ],
)
def test_places_are_named_in_one_style(place: str, shown: str) -> None:
    assert dotted(place) == shown


def test_the_dead_messages_of_a_failure_are_listed_and_no_others(browser: Client) -> None:
    first, second = failed(), failed()
    failed(send)
    failed(dead=False)
    listed = f"{url('changelist')}?failure={group().pk}"
    assert listed in page(browser)
    response = browser.get(listed)
    assert [row.pk for row in response.context["cl"].result_list] == [second.pk, first.pk]
    assert response.context["title"] == "Dead letters"
    assert not response.context["cl"].covers_all
    found = browser.get(f"{listed}&q={first.pk}").context["cl"].result_list
    assert [row.pk for row in found] == [first.pk]


@pytest.mark.parametrize("number", ["0", "99999", "x", "-1", "9" * 40])
def test_a_failure_that_is_not_there_lists_no_message_and_harms_nothing(browser: Client, number: str) -> None:
    failed()
    response = browser.get(f"{url('changelist')}?failure={number}")
    assert response.status_code == 200
    assert list(response.context["cl"].result_list) == []


def test_the_dead_beyond_what_is_searched_are_reported_missing(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_groups, "STEP", 1)
    monkeypatch.setattr(failure_groups, "SEARCHED", 2)
    oldest = failed()
    for _ in range(2):
        failed(dead=False)
    response = browser.get(f"{url('changelist')}?failure={group().pk}")
    assert list(response.context["cl"].result_list) == []
    assert "Older ones may be dead too" in response.content.decode()
    monkeypatch.setattr(failure_groups, "SEARCHED", 4)
    response = browser.get(f"{url('changelist')}?failure={group().pk}")
    assert [row.pk for row in response.context["cl"].result_list] == [oldest.pk]
    assert "Older ones" not in response.content.decode()


def test_the_page_of_a_group_shows_the_traceback_of_its_example(browser: Client) -> None:
    failed()
    text = browser.get(url("change", group().pk, model="failure")).content.decode()
    assert "Traceback (most recent call last):" in text
    assert "<h2>payment" in text


def test_the_page_of_a_group_links_its_messages_and_what_can_be_done(browser: Client) -> None:
    message = failed()
    text = browser.get(url("change", group().pk, model="failure")).content.decode()
    assert f'href="{url("change", message.pk)}"' in text
    assert url("requeue", group().pk, model="failure") in text
    assert url("drop", group().pk, model="failure") in text
    Message.objects.filter(pk=message.pk).requeue()
    text = browser.get(url("change", group().pk, model="failure")).content.decode()
    assert url("drop", group().pk, model="failure") not in text


def test_a_list_costs_no_more_statements_for_many_groups_than_their_events_take(browser: Client) -> None:
    spent = []
    for number in (1, 20):
        for kind in range(number):
            message = held(queue="shop", max_reads=1)
            message.nack(error=f"{'abcdefghijklmnopqrst'[kind]} is missing")
        with CaptureQueriesContext(connection) as queries:
            assert len(rows(browser)) == number
        spent.append(len(queries))
    assert spent[1] - spent[0] == 20 // failure_groups.AT_ONCE - 1


def test_an_evil_error_changes_nothing_on_the_pages(browser: Client) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    held(queue="shop").reject(evil)
    [row] = rows(browser)
    for text in (page(browser), browser.get(url("change", row.pk, model="failure")).content.decode()):
        assert "<img src=x" not in text
        assert "<script>alert" not in text


def test_a_preview_of_what_would_be_dropped_changes_nothing(browser: Client) -> None:
    failed()
    failed(send)
    response = browser.get(url("drop", group().pk, model="failure"))
    assert "<strong>1 message</strong>" in response.content.decode()
    assert "PaymentRefused" in response.content.decode()
    assert not BulkOperation.objects.exists()
    assert Message.objects.dead("shop").count() == 2


def test_the_dead_of_a_group_are_found_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those whose earlier failures were of another kind, or of this one more than once."""
    monkeypatch.setattr(bulk, "STEP", 3)
    dead = set()
    for _ in range(4):
        message = held(queue="shop", max_reads=3)
        for step in (send, pay, pay):
            fail_again(message, step)
            if step is send or not Message.objects.get(pk=message.pk).is_dead:
                Message.objects.filter(pk=message.pk).update(available_at=message.created_at)
                message = claim_one("shop")
        dead.add(message.pk)
    failed(send)
    selection = bulk.Selection.now(DjangoSession("default"), state="dead", failure=group().pk)
    found, cursor = [], ""
    while True:
        part = bulk.find(DjangoSession("default"), selection, cursor, bulk.STEP)
        found += part.ids
        if part.cursor is None:
            break
        cursor = part.cursor
    assert sorted(found) == sorted(dead)
    assert int(bulk.count(DjangoSession("default"), selection)) == 4


def test_a_group_whose_oldest_failures_were_all_tried_again_can_be_requeued(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an outage: everything fails once, then everything fails again. The looks for a count are bounded."""
    monkeypatch.setattr(bulk, "STEP", 1)
    monkeypatch.setattr(bulk, "COUNTED", 1)
    messages = [held(queue="shop", max_reads=2) for _ in range(6)]
    for message in messages:
        fail_again(message)
    Message.objects.update(available_at=DbNow(), due_at=DbNow())
    for message in Message.objects.claim(6, queue="shop", lease=60):
        fail_again(message)
    assert Message.objects.dead("shop").count() == 6
    selection = bulk.Selection.now(DjangoSession("default"), state="dead", failure=group().pk)
    assert str(bulk.count(DjangoSession("default"), selection, 1)) == "1+"
    assert browser.get(url("requeue", group().pk, model="failure")).status_code == 200
