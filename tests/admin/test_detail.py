from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from django_dbqueue.admin.display import SHOWN
from django_dbqueue.models import ArchivedMessage, Message
from tests.admin.conftest import make_dead, make_done, url

pytestmark = pytest.mark.django_db

EVIL = '"></pre><script>alert(1)</script>'
ESCAPED = "&quot;&gt;&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;"


def text_of(client: Client, message: Message) -> str:
    response = client.get(url("change", message.pk))
    assert response.status_code == 200
    return response.content.decode()


def test_what_others_wrote_is_escaped_everywhere(browser: Client) -> None:
    message = make_dead(key=EVIL, reason=EVIL, headers={"h": EVIL})
    Message.objects.filter(pk=message.pk).update(body=f'{{"a": "{EVIL[1:]}"}}')
    for page in (url("change", message.pk), url("changelist") + "?state=dead", url("requeue", message.pk)):
        text = browser.get(page).content.decode()
        assert "<script>alert" not in text
        assert ESCAPED in text or "&lt;script&gt;" in text
    Message.objects.dead().purge()
    archived = ArchivedMessage.objects.get()
    for page in (url("change", archived.pk, model="archivedmessage"), url("changelist", model="archivedmessage")):
        assert "<script>alert" not in browser.get(page).content.decode()


def test_a_payload_is_pretty(browser: Client) -> None:
    message = Message.objects.enqueue({"to": "ü", "n": [1]}, queue="q", headers={"trace": "t-1"})
    text = text_of(browser, message)
    assert "{\n  &quot;to&quot;: &quot;ü&quot;,\n" in text
    assert "&quot;trace&quot;: &quot;t-1&quot;" in text


def test_payload_and_headers_need_their_permission(client_with: Callable[..., Client]) -> None:
    message = Message.objects.enqueue({"secret": 1}, queue="q", headers={"h": "hush"})
    blind = client_with("view_message", "view_archivedmessage")
    assert "secret" not in text_of(blind, message)
    assert "hush" not in text_of(blind, message)
    assert "Can see payloads" in text_of(blind, message)
    assert "secret" in text_of(client_with("view_message", "view_payload"), message)
    Message.objects.filter(pk=message.pk).drop_all("x")
    Message.objects.done().purge()
    page = url("change", ArchivedMessage.objects.get().pk, model="archivedmessage")
    assert "secret" not in blind.get(page).content.decode()
    assert "secret" in client_with("view_archivedmessage", "view_payload").get(page).content.decode()


def test_a_long_payload_is_cut(browser: Client) -> None:
    text = text_of(browser, Message.objects.enqueue("x" * (SHOWN + 5) + "x-last", queue="q"))
    assert f"Cut off: this is only the beginning of {SHOWN + 11:,} characters." in text
    assert "x-last" not in text


@pytest.mark.parametrize("body", ["{broken <i>", "[" * 5000, "NaN"])
def test_what_cannot_be_decoded_is_shown_raw_with_the_reason(browser: Client, body: str) -> None:
    message = Message.objects.enqueue(1, queue="q")
    Message.objects.filter(pk=message.pk).update(body=body, headers_text="{also broken")
    text = text_of(browser, message)
    assert "be decoded" in text
    assert body.replace("<", "&lt;").replace(">", "&gt;")[:40] in text
    assert "{also broken" in text


def test_bytes_and_text_are_shown(browser: Client) -> None:
    assert "2 bytes, shown as base64." in text_of(browser, Message.objects.enqueue(b"\0\1", queue="q"))
    assert ">plain\ntext</pre>" in text_of(browser, Message.objects.enqueue("plain\ntext", queue="q"))


def test_only_fitting_and_permitted_buttons_are_shown(browser: Client, client_with: Callable[..., Client]) -> None:
    done = make_done()
    assert "dbqueue-verb-send-again" in text_of(browser, done)
    assert "dbqueue-verb-requeue" not in text_of(browser, done)
    dead = make_dead()
    text = text_of(client_with("view_message", "requeue_message"), dead)
    assert "dbqueue-verb-requeue" in text
    assert "dbqueue-verb-drop" not in text


def test_nothing_is_added_edited_or_deleted(browser: Client) -> None:
    message = Message.objects.enqueue(1, queue="q")
    assert browser.get("/admin/django_dbqueue/message/add/").status_code == 403
    assert browser.post(url("change", message.pk), {"queue": "x"}).status_code == 403
    assert browser.post(url("delete", message.pk), {"post": "yes"}).status_code == 403
    browser.post(
        url("changelist"), {"action": "delete_selected", "_selected_action": [message.pk], "post": "yes", "index": 0}
    )
    assert Message.objects.get().queue == "q"
    for model in ("queue", "worker", "archivedmessage"):
        assert browser.get(f"/admin/django_dbqueue/{model}/add/").status_code == 403
    assert browser.post(url("change", "q", model="queue"), {"is_paused": "1"}).status_code == 403
    assert browser.post(url("delete", "q", model="queue"), {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("odd", ["0", "-1", "abc", "9" * 30])
def test_odd_ids_are_not_found(browser: Client, odd: str) -> None:
    assert browser.get(url("change", odd)).status_code == 302
    assert browser.get(f"/admin/django_dbqueue/message/{odd}/requeue/").status_code in {302, 404}
