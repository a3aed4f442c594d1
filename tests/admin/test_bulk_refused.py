"""Whom and what the pages of bulk operations refuse: stale ones, ones that we did not make, and people who may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.core import signing
from django.test import Client

from django_dbqueue.admin import bulk_orders
from django_dbqueue.models import BulkOperation, Message
from tests.admin.bulk_orders import PERMISSIONS, VERBS, choose_all, confirm, fill, group_of, notice, untouched
from tests.admin.conftest import url
from tests.admin.failing import failed
from tests.operations.orders import OPERATIONS, counts, go_on

pytestmark = pytest.mark.django_db


def test_a_page_orders_once(browser: Client) -> None:
    fill(60)
    page = choose_all(browser)
    confirm(browser, page)
    response = confirm(browser, page)
    assert "already confirmed" in notice(browser, response)
    assert BulkOperation.objects.count() == 1
    assert Message.objects.in_queue(OPERATIONS).count() == 1


def test_a_page_whose_messages_have_all_moved_is_refused(browser: Client) -> None:
    fill(60)
    page = choose_all(browser)
    Message.objects.dead("q").requeue()
    assert "there is nothing left to do" in notice(browser, confirm(browser, page))
    assert untouched()
    assert Message.objects.ready("q").count() == 60


def test_what_died_again_after_the_page_was_shown_is_left_alone(browser: Client) -> None:
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
    monkeypatch.setattr(bulk_orders, "FRESH_FOR", -1)
    assert "This page has expired" in notice(browser, confirm(browser, page))
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


def user_of(client: Client) -> User:
    return User.objects.get(pk=client.session["_auth_user_id"])


def test_a_permission_that_was_revoked_before_the_confirmation_counts(client_with: Callable[..., Client]) -> None:
    fill(60)
    client = client_with("view_message", "drop_message")
    page = choose_all(client)
    user_of(client).user_permissions.remove(Permission.objects.get(codename="drop_message"))
    assert confirm(client, page).status_code == 403
    assert untouched()


def test_a_group_of_failures_needs_the_permission_to_see_failures_at_its_confirmation_too(
    client_with: Callable[..., Client],
) -> None:
    failed()
    client = client_with("view_message", "drop_message", "view_failure")
    page = client.get(url("drop", group_of("shop").pk, model="failure"))
    user_of(client).user_permissions.remove(Permission.objects.get(codename="view_failure"))
    assert confirm(client, page).status_code == 403
    assert untouched()


@pytest.mark.parametrize("verb", VERBS)
def test_an_order_is_no_get(browser: Client, verb: str) -> None:
    assert browser.get(url(f"order_{verb}", model="bulkoperation")).status_code == 405


def test_an_order_without_a_csrf_token_is_refused(operator: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(operator)
    assert client.post(url("order_drop", model="bulkoperation"), {"ticket": "x"}).status_code == 403
