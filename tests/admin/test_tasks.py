"""What a message's page shows of a task: its name, and its result to those who may see payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_dbqueue.models import ArchivedMessage, Message, Result
from django_dbqueue.models.fields import DbNow
from django_dbqueue.tasks.task_headers import TASK
from tests.admin.conftest import make_ready, url

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

pytestmark = pytest.mark.django_db

PATH = "shop.tasks.charge"


@pytest.fixture
def done() -> Message:
    """A message of a task that has returned something."""
    Message.objects.enqueue({"args": [], "kwargs": {}}, queue="q", headers={TASK: PATH})
    [message] = Message.objects.claim(1, queue="q")
    message.ack()
    Result(pk=message.pk, body='{"card": "4711", "paid": 17}', content_type="json", expires_at=DbNow()).save()
    return message


def seen(client: Client, message: Any, model: str = "message") -> str:
    page = client.get(url("change", message.pk, model=model))
    assert page.status_code == 200
    return page.content.decode()


def test_the_page_shows_the_task_and_its_result(browser: Client, done: Message) -> None:
    page = seen(browser, done)
    assert PATH in page
    assert "4711" in page


def test_the_history_shows_it_too(browser: Client, done: Message) -> None:
    Message.objects.archive("q", older_than=0)
    page = seen(browser, ArchivedMessage.objects.get(message_id=done.pk), "archivedmessage")
    assert PATH in page
    assert "4711" in page


def test_what_is_redacted_in_payloads_is_redacted_in_results(browser: Client, done: Message) -> None:
    with override_settings(DBQUEUE={"REDACT": ["card"]}):
        page = seen(browser, done)
    assert "4711" not in page
    assert "17" in page


def test_who_may_not_see_payloads_sees_no_result(client_with: Callable[..., Client], done: Message) -> None:
    page = seen(client_with("view_message"), done)
    assert PATH in page
    assert "4711" not in page


def test_a_message_that_is_no_task_has_no_such_part(browser: Client) -> None:
    page = seen(browser, make_ready())
    assert "field-task" not in page
    broken = make_ready()
    Message.objects.filter(pk=broken.pk).update(headers_text="{")
    assert "field-task" not in seen(browser, broken)
