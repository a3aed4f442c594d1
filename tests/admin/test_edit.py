"""Editing a payload: what is shown is all of it, what is sent is what was written, and only by who may do both."""

from __future__ import annotations

import html
import json
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client, override_settings

from django_dbqueue.models import Message
from django_dbqueue.value_types import TYPES
from tests.admin.conftest import make_dead, make_done, make_ready, make_stuck, url
from tests.factories import row, rows

pytestmark = pytest.mark.django_db
MAY = ("view_message", "view_payload", "edit_message")


def shown(client: Client, message: Message) -> dict[str, str]:
    """The page's fields."""
    response = client.get(url("edit", message.pk))
    assert response.status_code == 200
    page = response.content.decode()
    [pin] = re.findall(r'name="message" value="([^"]+)"', page)
    [text] = re.findall(r"<textarea[^>]*>\r?\n?(.*?)</textarea>", page, re.DOTALL)
    return {"message": html.unescape(pin), "payload": html.unescape(text)}


def send(client: Client, message: Message, form: dict[str, str]) -> Any:
    return client.post(url("edit", message.pk), form, follow=True)


def notice(response: Any) -> str:
    return " ".join(str(message) for message in response.context["messages"])


@pytest.mark.parametrize("make", [make_ready, make_dead, make_done])
def test_what_was_written_is_sent_and_logged(browser: Client, make: Callable[..., Message]) -> None:
    old = make(key="k")
    assert url("edit", old.pk) in browser.get(url("change", old.pk)).content.decode()
    form = shown(browser, old)
    assert form["payload"] == '{\n  "n": 1\n}'
    response = send(browser, old, form | {"payload": '{"n": "ü"}'})
    new = Message.objects.latest("pk")
    assert notice(response) == f"Message #{old.pk} was sent again as #{new.pk}."
    assert (new.payload, new.key, row(old)["status"]) == ({"n": "ü"}, "k", "y")
    entry = LogEntry.objects.get()
    assert entry.object_id == str(old.pk)
    assert f"#{new.pk}" in entry.change_message


def test_a_payload_that_is_wrong_or_the_same_is_requested_once_more(browser: Client) -> None:
    message = make_ready()
    form = shown(browser, message)
    before = rows()
    for bad, why in (("{", "This is not JSON"), ("", "This is not JSON"), ('{"n":1}', "as before"), ("NaN", "JSON")):
        page = send(browser, message, form | {"payload": bad}).content.decode()
        assert why in html.unescape(page), bad
    assert rows() == before
    send(browser, message, form | {"payload": '{"n": true}'})
    assert Message.objects.latest("pk").payload == {"n": True}


def test_text_keeps_its_line_breaks(browser: Client) -> None:
    Message.objects.enqueue("one\ntwo", queue="q")
    old = Message.objects.get()
    form = shown(browser, old)
    assert form["payload"] == "one\ntwo"
    send(browser, old, form | {"payload": "one\r\ntwo\r\nthree"})
    assert Message.objects.latest("pk").payload == "one\ntwo\nthree"


def test_a_payload_that_can_not_be_decoded_can_be_mended(browser: Client) -> None:
    message = make_dead()
    Message.objects.filter(pk=message.pk).update(body='{"n": ')
    form = shown(browser, message)
    assert form["payload"] == '{"n": '
    send(browser, message, form | {"payload": '{"n": 1}'})
    assert Message.objects.latest("pk").payload == {"n": 1}


def test_half_a_character_that_was_written_by_sql_is_shown_and_must_be_mended(browser: Client) -> None:
    message = make_ready()
    Message.objects.filter(pk=message.pk).update(body='{"n": "\\ud800ü<&"}')
    form = shown(browser, message)
    assert "\\ud800" in form["payload"]
    page = send(browser, message, form | {"payload": form["payload"].replace('"n"', '"m"')}).content.decode()
    assert "lone surrogate" in page
    assert Message.objects.count() == 1
    send(browser, message, form | {"payload": form["payload"].replace("\\ud800", "")})
    assert Message.objects.latest("pk").payload == {"n": "ü<&"}


def test_what_is_claimed_or_bytes_is_not_offered(browser: Client) -> None:
    Message.objects.enqueue(b"ab", queue="bytes")
    for message in (make_stuck(), Message.objects.get(queue="bytes")):
        assert url("edit", message.pk) not in browser.get(url("change", message.pk)).content.decode()
        response = browser.get(url("edit", message.pk), follow=True)
        assert notice(response)
        assert response.redirect_chain


def test_what_is_redacted_can_not_be_edited_and_what_is_not_can(browser: Client) -> None:
    message = make_ready()
    with override_settings(DBQUEUE={"REDACT": ["n"]}):
        assert "redacted" in notice(browser.get(url("edit", message.pk), follow=True))
        assert "redacted" in notice(send(browser, message, {"payload": "1", "message": "x"}))
    with override_settings(DBQUEUE={"REDACT": ["other"]}):
        assert shown(browser, message)["payload"]
    assert Message.objects.count() == 1


def test_a_stale_page_sends_nothing(browser: Client) -> None:
    message = make_ready()
    form = shown(browser, message) | {"payload": "2"}
    Message.objects.all().move_to("there")
    assert "changed in the meantime" in notice(send(browser, message, form))
    again = shown(browser, message) | {"payload": "2"}
    send(browser, message, again)
    assert "changed in the meantime" in notice(send(browser, message, again)), "a second click sends nothing"
    assert Message.objects.count() == 2


def test_a_key_that_a_live_message_has_is_reported(browser: Client) -> None:
    old = make_dead(key="k")
    make_ready(key="k")
    page = send(browser, old, shown(browser, old) | {"payload": "2"}).content.decode()
    assert "a newer live message has its key" in page
    assert Message.objects.dead().count() == 1


@pytest.mark.parametrize("missing", MAY)
def test_it_needs_each_of_its_permissions(missing: str, client_with: Callable[..., Client], browser: Client) -> None:
    message = make_ready()
    form = shown(browser, message) | {"payload": "2"}
    others = {"resend_message", "drop_message", "view_message", "view_payload", "edit_message"} - {missing}
    client = client_with(*others)
    assert client.get(url("edit", message.pk)).status_code == 403
    assert client.post(url("edit", message.pk), form).status_code == 403
    assert Message.objects.count() == 1
    assert notice(send(client_with(*MAY), message, form)).endswith(f"#{Message.objects.latest('pk').pk}.")


def test_a_post_needs_the_csrf_token_and_other_methods_are_refused(operator: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(operator)
    message = make_ready()
    assert client.post(url("edit", message.pk), {"payload": "2"}).status_code == 403
    browser = Client()
    browser.force_login(operator)
    assert browser.put(url("edit", message.pk)).status_code == 405


def test_types_hold_for_an_edited_payload_where_they_fit(browser: Client) -> None:
    order, other = uuid.UUID(int=1), uuid.UUID(int=2)
    payload = {"order": order, "price": Decimal("1.50"), "text": "1.50"}
    old = Message.objects.enqueue(payload, queue="q", headers={"a": 1})
    with override_settings(DBQUEUE={"REDACT": ["secret"]}):
        form = shown(browser, old)
    assert json.loads(form["payload"]) == {"order": str(order), "price": "1.50", "text": "1.50"}
    assert "&quot;order&quot;: &quot;uuid&quot;" in browser.get(url("edit", old.pk)).content.decode()
    assert "as before" in html.unescape(send(browser, old, form).content.decode())
    edited = {"order": str(other), "price": "free", "text": "2.50"}
    send(browser, old, form | {"payload": json.dumps(edited)})
    new = Message.objects.latest("pk")
    assert (new.payload, new.headers["a"]) == (edited | {"order": other}, 1)


def test_text_has_no_types_whatever_its_headers_name(browser: Client) -> None:
    old = Message.objects.enqueue("1.50", queue="q", headers={TYPES: "decimal"})
    form = shown(browser, old)
    send(browser, old, form | {"payload": "2.50"})
    assert (old.payload, Message.objects.latest("pk").payload) == ("1.50", "2.50")
