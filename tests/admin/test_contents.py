"""Payload, headers and what errors quote: shown to those who may, without what is redacted, and downloaded by POST."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.test import Client

from django_dbqueue.admin.contents import EXCERPT
from django_dbqueue.models import ArchivedMessage, BulkOperation, Failure, Message, MessageEvent
from django_dbqueue.operations.bulk import Selection
from django_dbqueue.redaction.policy import MARK
from tests.admin.conftest import url
from tests.admin.crawl import crawl
from tests.admin.world import fill

pytestmark = pytest.mark.django_db

SECRET = "4111222233334444"
TRACE = 'Traceback (most recent call last):\n  File "shop.py", line 3, in pay\nLookupError: '
STAFF = ("view_message", "view_archivedmessage", "requeue_message", "drop_message")


def fails_on_the_card(queue: str, payload: Any, headers: dict[str, Any]) -> Any:
    raise ValueError(f"{payload} {headers}")


def dead(payload: Any = None, text: str = "", **options: Any) -> Message:
    """A message whose consumer quoted the payload as it failed."""
    Message.objects.enqueue({"card": {"number": SECRET}} if payload is None else payload, queue="q", **options)
    (message,) = Message.objects.claim(1, queue="q")
    try:
        raise LookupError(text or f"no account for {SECRET}")
    except LookupError as error:
        Message.objects.filter(pk=message.pk).update(max_reads=1)
        message.nack(error=error)
    return Message.objects.dead().get(pk=message.pk)


def pages_of(message: Message) -> list[str]:
    """Every page that shows something of a message, those of its archived copy among them."""
    if not ArchivedMessage.objects.filter(message_id=message.pk).exists():
        names = [field.attname for field in ArchivedMessage._meta.concrete_fields if field.attname in message.__dict__]
        values = {name: getattr(message, name) for name in names if name != "id"}
        ArchivedMessage.objects.create(message_id=message.pk, outcome="dead", **values)
    archived = ArchivedMessage.objects.get(message_id=message.pk)
    return [
        url("change", message.pk),
        url("changelist") + "?state=dead",
        f"{url('changelist')}?q={message.pk}",
        url("requeue", message.pk),
        url("drop", message.pk),
        url("change", archived.pk, model="archivedmessage"),
        url("changelist", model="archivedmessage"),
    ]


def texts(client: Client, message: Message) -> list[str]:
    responses = [client.get(page) for page in pages_of(message)]
    assert [response.status_code for response in responses] == [200] * len(responses)
    return [response.content.decode() for response in responses]


def download(client: Client, message: Message) -> Any:
    return client.post(url("payload", message.pk))


# -- who sees what ----------------------------------------------------------------------------------------


def test_without_the_permission_an_error_shows_its_class_and_places_on_every_page(
    client_with: Callable[..., Client],
) -> None:
    message = dead(headers={"session": SECRET})
    pages = texts(client_with(*STAFF), message)
    assert not [text for text in pages if SECRET in text]
    for text in pages[:-1]:
        assert "LookupError" in text
    assert "in dead" in pages[0]
    assert "may quote the payload" in pages[0]


def test_with_it_everything_is_shown(client_with: Callable[..., Client]) -> None:
    client, message = client_with(*STAFF, "view_payload"), dead()
    assert all(SECRET in text for text in texts(client, message)[:-1])


def test_what_is_redacted_is_on_no_page_and_the_rest_is(client_with: Callable[..., Client], settings: Any) -> None:
    settings.DBQUEUE = {"REDACT": ["card.number", "session"]}
    client = client_with(*STAFF, "view_payload")
    payload = {"card": {"number": SECRET, "holder": "Ann"}}
    message = dead(payload, f"no account for {SECRET}, Ann", headers={"session": "s-0815", "h": "kept"})
    pages = texts(client, message)
    assert not [text for text in pages if SECRET in text or "s-0815" in text]
    assert "kept" in pages[0]
    assert "Ann" in pages[0]
    for text in pages[:-1]:
        assert f"no account for {MARK}, Ann" in text


def test_a_list_shows_the_outline_where_payloads_are_too_long_to_be_read(browser: Client, settings: Any) -> None:
    settings.DBQUEUE = {"REDACT": ["card.number"]}
    message = dead({"card": {"number": SECRET}, "long": "x" * EXCERPT})
    detail, listed = texts(browser, message)[:2]
    assert f"no account for {MARK}" in detail
    assert "LookupError: [not shown]" in listed
    assert SECRET not in detail + listed


def test_a_hook_that_raises_shows_nothing_and_reports_it(browser: Client, settings: Any) -> None:
    settings.DBQUEUE = {"REDACT": f"{__name__}.fails_on_the_card"}
    message = dead(headers={"session": SECRET})
    pages = texts(browser, message)
    assert not [text for text in pages if SECRET in text]
    assert "fails_on_the_card failed (ValueError)" in pages[0]
    answer = browser.post(url("payload", message.pk), follow=True)
    assert SECRET not in answer.content.decode()
    assert "fails_on_the_card failed (ValueError)" in answer.content.decode()
    assert not LogEntry.objects.exists()


def leaking_world() -> None:
    """Make every row that may quote a payload quote it."""
    fill(["x"])
    body, error = json.dumps({"card": {"number": SECRET}}), f"LookupError: no account for {SECRET}\n\n{TRACE}{SECRET}"
    headers = json.dumps({"session": SECRET})
    for model in (Message, ArchivedMessage):
        model._base_manager.update(body=body, headers_text=headers, error=error)
    first = Message.objects.order_by("pk").first()
    failure = Failure.objects.first()
    assert first is not None
    assert failure is not None
    Failure.objects.update(exception=f"no account for {SECRET}", place="")  # of one that was rejected in words
    BulkOperation.objects.update(selection=str(Selection("dead", failure=failure.pk)))
    MessageEvent.objects.update(message_id=first.pk, detail=error, actor=None, failure_id=failure.pk)


def around(text: str) -> str:
    at = text.index(SECRET)
    return text[max(0, at - 80) : at]


def pages_with_the_secret(client: Client) -> list[str]:
    visits = crawl(client, each=6)
    assert len(visits) > 40
    return [f"{visit.path} …{around(visit.text)}…" for visit in visits if SECRET in visit.text]


@pytest.mark.once
def test_no_page_at_all_shows_it_without_the_permission(client_with: Callable[..., Client], operator: Any) -> None:
    leaking_world()
    every = Permission.objects.filter(content_type__app_label="django_dbqueue").exclude(codename="view_payload")
    assert pages_with_the_secret(client_with(*every.values_list("codename", flat=True))) == []
    assert len(pages_with_the_secret(client_with("view_message", "view_archivedmessage", "view_payload"))) > 10


@pytest.mark.once
@pytest.mark.parametrize("redact", [["card.number", "session"], "no.such.hook", f"{__name__}.fails_on_the_card"])
def test_no_page_at_all_shows_what_is_redacted(browser: Client, settings: Any, redact: Any) -> None:
    leaking_world()
    settings.DBQUEUE = {"REDACT": redact}
    assert pages_with_the_secret(browser) == []


@pytest.mark.parametrize("lookup", ["body__contains", "error__contains", "headers_text__contains", "body", "error"])
def test_neither_a_search_nor_the_url_reveals_it(browser: Client, settings: Any, lookup: str) -> None:
    settings.DBQUEUE = {"REDACT": ["card.number"]}
    message = dead()
    assert f"#{message.pk}" not in browser.get(f"{url('changelist')}?q={SECRET}").content.decode()
    for model in ("message", "archivedmessage"):
        found, missed = (
            browser.get(f"{url('changelist', model=model)}?{lookup}={text}", follow=True).content.decode()
            for text in ("4111", "9999")
        )
        assert found.count(f"#{message.pk}<") == missed.count(f"#{message.pk}<")


def test_of_a_long_payload_only_the_beginning_is_laid_out(browser: Client) -> None:
    message = Message.objects.enqueue([{"n": n} for n in range(20_000)] + ["the-last"], queue="q")
    text = browser.get(url("change", message.pk)).content.decode()
    assert "&quot;n&quot;: 17\n" in text
    assert f"Cut off: this is only the beginning of {len(message.body):,} characters." in text
    assert "the-last" not in text
    assert "the-last" in download(browser, message).content.decode()


# -- the download -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "data", "ending", "kind"),
    [
        ({"a": ["ü", None]}, '{"a":["ü",null]}', "json", "text/plain; charset=utf-8"),
        ("<script>alert(1)</script>\r\n", "<script>alert(1)</script>\r\n", "txt", "text/plain; charset=utf-8"),
        (b"\0\xff<html>", b"\0\xff<html>", "bin", "application/octet-stream"),
        ("x" * 100_000, "x" * 100_000, "txt", "text/plain; charset=utf-8"),
    ],
)
def test_a_payload_is_downloaded_whole_byte_for_byte_and_logged(
    browser: Client, payload: Any, data: str | bytes, ending: str, kind: str
) -> None:
    message = Message.objects.enqueue(payload, queue="q")
    answer = download(browser, message)
    assert answer.status_code == 200
    assert answer.content == (data.encode() if isinstance(data, str) else data)
    assert answer["Content-Type"] == kind
    assert answer["Content-Disposition"] == f'attachment; filename="message-{message.pk}.{ending}"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in answer["Cache-Control"]
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.change_message) == (str(message.pk), "Payload downloaded.")
    assert Message.objects.ready().filter(pk=message.pk).exists()


def test_a_download_is_redacted_like_the_page(browser: Client, settings: Any) -> None:
    settings.DBQUEUE = {"REDACT": ["card.number"]}
    message = Message.objects.enqueue({"card": {"number": SECRET}, "n": 1}, queue="q")
    assert json.loads(download(browser, message).content) == {"card": {"number": MARK}, "n": 1}
    text = Message.objects.enqueue(json.dumps({"card": {"number": SECRET}}), queue="q")
    assert json.loads(download(browser, text).content) == {"card": {"number": MARK}}


def test_an_archived_payload_is_downloaded_by_the_same_rules(
    browser: Client, client_with: Callable[..., Client]
) -> None:
    message = dead()
    Message.objects.dead().purge()
    page = url("payload", ArchivedMessage.objects.get().pk, model="archivedmessage")
    assert SECRET in browser.post(page).content.decode()
    assert client_with("view_archivedmessage").post(page).status_code == 403
    assert client_with("view_payload").post(page).status_code == 403
    assert download(browser, message).status_code == 404
    assert LogEntry.objects.count() == 1


def test_a_download_needs_both_permissions_and_the_token_and_is_no_get(
    client_with: Callable[..., Client], operator: Any
) -> None:
    message = dead()
    for codenames in (["view_message"], ["view_payload"], ["requeue_message", "view_message"]):
        client = client_with(*codenames)
        assert download(client, message).status_code == 403
        assert "Download payload" not in client.get(url("change", message.pk)).content.decode()
    client = client_with("view_message", "view_payload")
    assert "Download payload" in client.get(url("change", message.pk)).content.decode()
    assert client.get(url("payload", message.pk)).status_code == 405
    assert "/login/" in Client().post(url("payload", message.pk))["Location"]
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)
    assert strict.post(url("payload", message.pk)).status_code == 403
    assert not LogEntry.objects.exists()
    assert download(client, message).status_code == 200


@pytest.mark.parametrize("pk", ["0", "9" * 30])
def test_what_is_not_there_is_not_downloaded(browser: Client, pk: str) -> None:
    assert browser.post(f"/admin/django_dbqueue/message/{pk}/payload/").status_code == 404


def test_what_cannot_be_decoded_is_downloaded_as_it_stands(browser: Client) -> None:
    message = Message.objects.enqueue(1, queue="q")
    Message.objects.filter(pk=message.pk).update(body="{broken <i>")
    answer = download(browser, message)
    assert answer.content == b"{broken <i>"
    assert answer["Content-Type"].startswith("text/plain")


def test_a_lone_surrogate_breaks_neither_page_nor_download(browser: Client, settings: Any) -> None:
    message = Message.objects.enqueue(1, queue="q")
    Message.objects.filter(pk=message.pk).update(body='["\\ud800"]', headers_text='{"h": "\\udc00"}')
    text = browser.get(url("change", message.pk)).content.decode()
    assert "\\ud800" in text
    assert "\\udc00" in text
    assert download(browser, message).content == b'["\\ud800"]'
    settings.DBQUEUE = {"REDACT": ["card"]}
    assert json.loads(download(browser, message).content) == ["\ud800"]
