"""What the pages of messages show of tasks: name, result, attempts; and the list of one task's messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client, override_settings

from django_dbqueue.admin import attempts as attempts_module
from django_dbqueue.admin import bounded_lists, messages
from django_dbqueue.models import ArchivedMessage, Message, MessageEvent, Result
from django_dbqueue.models.fields import DbNow
from django_dbqueue.tasks.task_headers import TASK
from tests.admin.confirmations import form_of
from tests.admin.conftest import make_ready, make_stuck, url

pytestmark = pytest.mark.django_db

PATH = "shop.tasks.charge"


@pytest.fixture
def done() -> Message:
    """A message of a task that has returned something."""
    Message.objects.enqueue({"args": [], "kwargs": {}}, queue="q", headers={TASK: PATH})
    [message] = Message.objects.claim(1, queue="q")
    message.ack()
    Result(pk=message.pk, body='{"card": "4711-0815", "paid": 17}', content_type="json", expires_at=DbNow()).save()
    return message


def seen(client: Client, message: Any, model: str = "message") -> str:
    page = client.get(url("change", message.pk, model=model))
    assert page.status_code == 200
    return page.content.decode()


def test_the_page_shows_the_task_and_its_result(browser: Client, done: Message) -> None:
    page = seen(browser, done)
    assert PATH in page
    assert "4711-0815" in page


def test_the_history_shows_it_too(browser: Client, done: Message) -> None:
    Message.objects.archive("q", older_than=0)
    page = seen(browser, ArchivedMessage.objects.get(message_id=done.pk), "archivedmessage")
    assert PATH in page
    assert "4711-0815" in page


def test_what_is_redacted_in_payloads_is_redacted_in_results(browser: Client, done: Message) -> None:
    with override_settings(DBQUEUE={"REDACT": ["card"]}):
        page = seen(browser, done)
    assert "4711-0815" not in page
    assert "17" in page


def test_who_may_not_see_payloads_sees_no_result(client_with: Callable[..., Client], done: Message) -> None:
    page = seen(client_with("view_message"), done)
    assert PATH in page
    assert "4711-0815" not in page


def test_a_message_that_is_no_task_has_no_such_part(browser: Client) -> None:
    page = seen(browser, make_ready())
    assert "field-task" not in page
    broken = make_ready()
    Message.objects.filter(pk=broken.pk).update(headers_text="{")
    assert "field-task" not in seen(browser, broken)


def fail(message: Message, error: BaseException) -> None:
    """Record a failed attempt as a worker does it for a task: with the traceback."""
    [claimed] = Message.objects.claim(1, queue="q")
    try:
        raise error
    except type(error) as caught:
        claimed.nack(error=caught, delay=0)
    event = MessageEvent.objects.filter(message_id=message.pk).latest("pk")
    MessageEvent.objects.filter(pk=event.pk).update(detail=Message.objects.get(pk=message.pk).error)


def test_each_failed_attempt_is_shown_with_its_traceback(
    browser: Client, client_with: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    message = enqueue(PATH)
    assert "dbqueue-attempt" not in seen(browser, message)
    fail(message, ValueError("card 4711-0815 <b>"))
    fail(message, LookupError("card 4712"))
    page = seen(browser, message)
    attempts = page.split('<div class="dbqueue-attempt">')[1:]
    assert len(attempts) == 2
    for attempt, number, error in zip(
        attempts, (2, 1), ("LookupError: card 4712", "ValueError: card 4711-0815 &lt;b&gt;"), strict=True
    ):
        assert f"delivery {number} · " in attempt
        assert "Failed, to be retried" in attempt
        assert error in attempt
        assert "Traceback (most recent call last):" in attempt
        assert "in fail\n" in attempt
    life = page.partition('id="dbqueue-life-title"')[2]
    assert "ValueError: card 4711-0815" in life
    assert "Traceback" not in life
    hidden = seen(client_with("view_message"), message)
    assert "LookupError" in hidden.split('<div class="dbqueue-attempt">')[1]
    assert "card 471" not in hidden
    monkeypatch.setattr(attempts_module, "MOST", 1)
    page = seen(browser, message)
    assert page.count("Earlier attempts are not shown.") == 1
    assert "card 4711-0815" not in page.partition('id="dbqueue-life-title"')[0]


def test_what_is_redacted_in_payloads_is_redacted_in_attempts(browser: Client) -> None:
    message = Message.objects.enqueue({"args": [], "kwargs": {"card": "4711-0815"}}, queue="q", headers={TASK: PATH})
    fail(message, ValueError("card 4711-0815"))
    with override_settings(DBQUEUE={"REDACT": ["kwargs.card"]}):
        page = seen(browser, message)
    assert "ValueError: card [redacted]" in page
    assert "4711-0815" not in page


# -- the list -----------------------------------------------------------------------------------------------


def enqueue(path: str, *, queue: str = "q", **options: Any) -> Message:
    return Message.objects.enqueue({"args": [], "kwargs": {}}, queue=queue, headers={TASK: path}, **options)


def listed(client: Client, **query: Any) -> list[int]:
    page = client.get(url("changelist"), query)
    assert page.status_code == 200
    return [row.pk for row in page.context["cl"].result_list]


def text_of(client: Client, **query: Any) -> str:
    return client.get(url("changelist"), query).content.decode()


def test_the_list_shows_tasks_by_their_short_names(client_with: Callable[..., Client]) -> None:
    client = client_with("view_message")
    make_ready()
    assert "task_cut" not in text_of(client, state="ready")
    assert "task=" not in text_of(client, state="ready")
    enqueue(PATH)
    page = text_of(client, state="ready")
    assert f'<td class="field-task_cut"><span class="dbqueue-task" title="{PATH}">charge</span></td>' in page
    assert '<td class="field-task_cut">–</td>' in page
    assert "key_cut" not in page
    make_ready(key="k")
    assert "key_cut" in text_of(client, state="ready")


def test_the_filter_offers_the_tasks_that_are_there_and_lists_one(browser: Client) -> None:
    first, other, last = enqueue(PATH), enqueue("shop.tasks.charge_later"), enqueue(PATH, queue="z")
    dead = enqueue(PATH)
    Message.objects.filter(pk=dead.pk).reject_waiting("no")
    make_ready()
    quoting = Message.objects.enqueue(1, queue="q", headers={"a": f'"{TASK}":"{PATH}"', "b": {TASK: PATH}})
    page = text_of(browser, state="ready")
    for name in (PATH, "shop.tasks.charge_later"):
        assert f"task={name}" in page
    assert listed(browser, state="ready", task=PATH) == [first.pk, last.pk]
    assert listed(browser, task=PATH) == [first.pk, last.pk]
    assert listed(browser, state="ready", task=PATH, queue="z") == [last.pk]
    assert listed(browser, state="ready", task="shop.tasks.charge_later") == [other.pk]
    assert listed(browser, state="dead", task=PATH) == [dead.pk]
    assert listed(browser, state="ready", task=PATH.upper()) == []
    assert listed(browser, q=str(last.pk), task=PATH) == [last.pk]
    assert listed(browser, q=str(other.pk), task=PATH) == []
    assert quoting.pk in listed(browser, state="ready")


def test_headers_that_others_wrote_with_spaces_and_in_another_order_are_found(browser: Client) -> None:
    message = make_ready()
    Message.objects.filter(pk=message.pk).update(headers_text=f'{{"trace": 1, "{TASK}" : "{PATH}"}}')
    assert listed(browser, state="ready", task=PATH) == [message.pk]


def test_with_a_task_stuck_ones_of_that_task_come_first(browser: Client) -> None:
    waiting = enqueue(PATH)
    stuck = make_stuck("other")
    assert listed(browser) == [stuck.pk]
    assert listed(browser, task=PATH) == [waiting.pk]
    Message.objects.filter(pk=stuck.pk).update(headers_text=f'{{"{TASK}":"{PATH}"}}')
    assert listed(browser, task=PATH) == [stuck.pk]


@pytest.mark.parametrize("name", ["", "<b>", "a b", "1a", "x\0y", "ü" * 400])
def test_what_can_be_no_task_is_ignored(browser: Client, name: str) -> None:
    message = enqueue(PATH)
    assert listed(browser, state="ready", task=name) == [message.pk]


def test_only_the_first_messages_are_searched_and_the_page_reports_it(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (bounded_lists, messages):
        monkeypatch.setattr(module, "SEARCHED", 3)
    near = enqueue(PATH)
    for _ in range(2):
        make_ready()
    assert "were searched for the task" not in text_of(browser, state="ready", task=PATH)
    enqueue(PATH)
    assert listed(browser, state="ready", task=PATH) == [near.pk]
    assert "Only the first 3 messages were searched for the task" in text_of(browser, state="ready", task=PATH)
    page = text_of(browser, state="ready", task="shop.tasks.none")
    assert "No message of this task was found." in page
    assert "Only the first 3 messages" in page


def test_selecting_all_of_a_task_selects_no_others(browser: Client) -> None:
    enqueue(PATH)
    make_ready()
    data = {"action": "drop", "index": 0, "select_across": "1", "_selected_action": [Message.objects.first().pk]}  # type: ignore[union-attr]
    page = browser.post(f"{url('changelist')}?state=ready&task={PATH}", data)
    assert page.status_code == 200
    assert "ticket" not in page.context
    browser.post(url("drop_many"), form_of(page) | {"reason": "old"})
    assert [message.headers for message in Message.objects.ready()] == [{}]
    assert Message.objects.done().get().headers == {TASK: PATH}
