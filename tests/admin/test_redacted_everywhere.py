"""What is redacted stands on no page, for nobody, and in no command's output, however its payload wraps it."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from django.core.management import call_command
from django.test import Client, override_settings

from django_dbqueue.codecs import encode
from django_dbqueue.models import Failure, Message
from tests.admin.conftest import url
from tests.factories import held, written_by_sql
from tests.redaction.test_every_wrapping import BARE, EVERYWHERE, ROWS, WRAPPED, errors_about


def read(*command: str) -> str:
    output = io.StringIO()
    call_command(*command, stdout=output, stderr=output)
    return output.getvalue()


@pytest.mark.django_db
@override_settings(DBQUEUE={"REDACT": EVERYWHERE})
def test_no_page_and_no_command_shows_it(browser: Client, client_with: Callable[..., Client]) -> None:
    errors = []
    for number, (name, message) in enumerate(ROWS.items()):
        payload = WRAPPED.get(name, message.body)
        text = errors_about(payload)[number % 7]
        body, content_type = encode(payload, max_bytes=10**6)[:2] if name in WRAPPED else (message.body, "json")
        written_by_sql(body, content_type, queue="shop", max_reads=1)
        errors.append(text)
    for message, text in zip(Message.objects.claim(len(errors), queue="shop", lease=60), errors, strict=True):
        message.nack(error=text)
    some = client_with("view_message", "view_failure", "view_archivedmessage", "view_queue")
    for client in (browser, some):
        paths = [url("changelist", model=model) for model in ("message", "failure", "archivedmessage")]
        paths += [url("change", pk, model="failure") for pk in Failure.objects.values_list("pk", flat=True)]
        for pk in Message.objects.values_list("pk", flat=True):
            paths += [url("change", pk), url("payload", pk)]
        pages = {path: client.get(path).content.replace(b"\0", b"") for path in paths}
        assert [path for path, page in pages.items() if BARE.encode() in page] == []
        assert b"[redacted]" in b"".join(pages.values()) or client is some
    for command in (
        ["queue_peek", "shop", "--state", "dead", "--payload", "--limit", "100"],
        ["queue_peek", "shop", "--state", "dead", "--payload", "--why", "--json", "--limit", "100"],
        ["queue_status"],
    ):
        assert BARE not in read(*command)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "text",
    [
        "TimedOut: {} ran longer than its timeout of 3 s",
        "WorkerDied: the process that ran this message ended by {}.",
        "LeaseOver: the lease of claim 1 of stream {} ended",
        "StreamFailed: the batches of stream {} that delivered this message",
    ],
)
def test_a_text_that_resembles_ours_gives_a_group_no_place(client_with: Callable[..., Client], text: str) -> None:
    held(queue="shop").nack(error=text.format(BARE))
    assert BARE in Failure.objects.get().place
    client = client_with("view_message", "view_failure")
    for path in (url("changelist", model="failure"), url("change", Failure.objects.get().pk, model="failure")):
        assert BARE not in client.get(path).content.decode()
    assert BARE in client_with("view_failure", "view_payload").get(path).content.decode()


@pytest.mark.django_db
def test_how_a_process_ended_is_shown_in_a_group(client_with: Callable[..., Client]) -> None:
    held(queue="shop").nack(error="WorkerDied: the process that ran this message ended by signal 9 (SIGKILL).")
    assert "signal 9 (SIGKILL)" in client_with("view_failure").get(url("changelist", model="failure")).content.decode()
