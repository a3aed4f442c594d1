"""Who may see failures and what their errors say, and who may do something about them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client, override_settings

from django_dbqueue.models import Failure, Message
from tests.admin.conftest import url
from tests.admin.failing import failed, group, page
from tests.factories import held

pytestmark = pytest.mark.django_db


def test_the_dead_of_a_failure_are_for_those_who_may_see_failures(client_with: Callable[..., Client]) -> None:
    failed()
    listed = f"{url('changelist')}?failure={group().pk}"
    assert list(client_with("view_message").get(listed).context["cl"].result_list) == []
    assert len(client_with("view_message", "view_failure").get(listed).context["cl"].result_list) == 1
    assert listed not in page(client_with("view_failure"))


def test_the_detail_of_an_error_is_for_those_who_may_see_payloads(client_with: Callable[..., Client]) -> None:
    failed(payload={"name": "Ann"})
    sees, does_not = client_with("view_failure", "view_message", "view_payload"), client_with("view_failure")
    one = url("change", group().pk, model="failure")
    for path in (url("changelist", model="failure"), one):
        assert "was refused" in sees.get(path).content.decode()
        assert "PaymentRefused" in does_not.get(path).content.decode()
        assert "was refused" not in does_not.get(path).content.decode()


@override_settings(DBQUEUE={"REDACT": ["name"]})
def test_what_is_redacted_is_masked_in_the_detail_of_an_error(browser: Client) -> None:
    message = held(queue="shop", max_reads=1, payload={"name": "Ann Example"})
    message.nack(error=ValueError("no account of Ann Example in the books"))
    one = url("change", Failure.objects.get().pk, model="failure")
    for path in (url("changelist", model="failure"), one):
        text = browser.get(path).content.decode()
        assert "Ann Example" not in text
        assert "in the books" in text
    Message.objects.filter(pk=message.pk).delete()
    for path in (url("changelist", model="failure"), one):  # what to mask is not known any more
        assert "the books" not in browser.get(path).content.decode()


def test_words_of_an_error_are_for_those_who_may_see_payloads(client_with: Callable[..., Client]) -> None:
    held(queue="shop").reject("Ann Example has moved")
    one = url("change", Failure.objects.get().pk, model="failure")
    sees, does_not = client_with("view_failure", "view_payload"), client_with("view_failure")
    assert "Ann Example" in page(sees)
    assert "Ann Example" in sees.get(one).content.decode()
    assert "Ann Example" not in page(does_not)
    assert "Ann Example" not in does_not.get(one).content.decode()


@override_settings(DBQUEUE={"REDACT": ["name"]})
def test_words_of_an_error_are_hidden_where_something_is_redacted(client_with: Callable[..., Client]) -> None:
    held(queue="shop", payload={"name": "Ann"}).reject("Ann Example has moved")
    assert "Ann Example" not in page(client_with("view_failure", "view_payload"))


def test_failures_are_for_those_who_may_see_them(client_with: Callable[..., Client]) -> None:
    failed()
    others = client_with("view_message", "drop_message", "requeue_message", "view_bulkoperation")
    assert others.get(url("changelist", model="failure")).status_code == 403
    assert others.get(url("change", group().pk, model="failure")).status_code == 403
    assert others.get(url("drop", group().pk, model="failure")).status_code == 403
    viewer = client_with("view_failure")
    assert viewer.get(url("changelist", model="failure")).status_code == 200
    text = viewer.get(url("change", group().pk, model="failure")).content.decode()
    assert url("drop", group().pk, model="failure") not in text
    for verb in ("drop", "requeue"):
        assert viewer.get(url(verb, group().pk, model="failure")).status_code == 403


def test_nothing_about_a_group_is_changed_by_hand(browser: Client) -> None:
    failed()
    assert browser.post(url("change", group().pk, model="failure"), {"queue": "x"}).status_code == 403
    assert browser.post(url("drop", group().pk, model="failure")).status_code == 405
    assert browser.get(url("drop", 10**6, model="failure")).status_code == 404
