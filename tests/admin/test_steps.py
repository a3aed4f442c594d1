"""Steps on the page of a message: its life shows them, and who may makes it forget one (P21)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client, override_settings

from django_dbqueue import InvalidMessage, InvalidStep, Suspended
from django_dbqueue.models import Event, Message, MessageEvent, Step
from tests.admin.conftest import make_done, url
from tests.admin.test_life import page, steps, why
from tests.factories import claim_one, held
from tests.steps.stepping import again

pytestmark = pytest.mark.django_db


def suspended(call: Callable[[], Any]) -> None:
    with pytest.raises(Suspended):
        call()


def forget_url(message: Message, name: str) -> str:
    return f"{url('forget_step', message.pk)}?name={name}"


def form_of(client: Client, message: Message, name: str) -> dict[str, str]:
    response = client.get(forget_url(message, name))
    assert response.status_code == 200
    return {"name": response.context["name"], "pin": response.context["pin"]}


def test_the_life_shows_each_step_with_its_time_and_its_delivery(browser: Client) -> None:
    message = held()
    message.step("charge", lambda: 5)
    message.nack(delay=0, error="ValueError: as told")
    message = claim_one()
    message.step("book", lambda: None)
    suspended(lambda: message.sleep("cool off", 86_400))
    text = page(browser, message)
    found = steps(text)
    assert "Step done charge, delivery 1 Forget this step" in found
    assert "Step done book, delivery 2 Forget this step" in found
    assert any(line.startswith("Sleep cool off, until 20") and ", delivery 2" in line for line in found)
    assert why(text) == "sleeps"


class Cut(Exception):
    """What ends a handler in the middle of its step."""


def save_and_end(message: Message, cursor: Any) -> None:
    with suppress(Cut), message.resumable_step("import") as step:
        step.save(cursor)
        raise Cut


def test_the_page_shows_a_step_in_progress_with_its_cursor(browser: Client) -> None:
    message = held()
    save_and_end(message, {"last": "<17>"})
    assert 'Step in progress import, cursor {"last": "<17>"}, delivery 1 Forget this step' in steps(
        page(browser, message)
    )
    save_and_end(message := again(message), b"\0")
    assert any("cursor b'\\x00', delivery 2" in line for line in steps(page(browser, message)))
    save_and_end(message := again(message), "x" * 10_000)
    assert any("xxx …, delivery 3" in line for line in steps(page(browser, message)))


def test_a_cursor_is_redacted_as_payloads_are_and_shown_to_those_who_may_see_them(
    browser: Client, client: Client
) -> None:
    message = held()
    save_and_end(message, {"card": "visa-4711", "page": 3})
    with override_settings(DBQUEUE={"REDACT": ["card"]}):
        assert 'cursor {"card": "[redacted]", "page": 3}' in " ".join(steps(page(browser, message)))
    user = User.objects.create_user("viewer", password="v", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_message"))
    client.force_login(user)
    shown = page(client, message)
    assert "Step in progress import, delivery 1" in steps(shown)
    assert "visa-4711" not in shown


def test_the_page_shows_for_which_event_a_message_waits(browser: Client) -> None:
    message = held()
    suspended(lambda: message.wait_for("paid:<17>"))
    text = page(browser, message)
    assert why(text) == "waits_for_event"
    assert "It waits for event “paid:&lt;17&gt;”, without a timeout." in text
    assert any(line.startswith("Wait for an event paid:<17>") for line in steps(text))


def test_the_number_of_statements_does_not_depend_on_the_number_of_steps(
    browser: Client, django_assert_max_num_queries: Any
) -> None:
    message = held()
    for n in range(250):
        message.step(f"step {n}", lambda: None)
    page(browser, message)
    with django_assert_max_num_queries(25):
        assert page(browser, message).count("Step done") == 200


def test_an_operator_makes_it_forget_a_step_which_is_logged_and_runs_again(browser: Client, operator: User) -> None:
    message, calls = held(), []
    message.step("charge", lambda: calls.append(1))
    message.reject("broken")
    form = form_of(browser, message, "charge")
    assert Step.objects.count() == 1, "a GET changes nothing"
    answer = browser.post(url("forget_step", message.pk), form, follow=True)
    assert "Step charge is forgotten: it runs again." in answer.content.decode()
    event = MessageEvent.objects.get(kind="step forgotten")
    assert (event.message_id, event.detail, event.actor) == (message.pk, "charge", "op")
    entry = LogEntry.objects.get()
    assert entry.user == operator
    assert "step charge" in entry.change_message
    assert "Step forgotten by op charge" in steps(page(browser, message))
    assert not any(line.startswith("Died") for line in steps(page(browser, message))), "the rejection says so"
    assert Message.objects.filter(pk=message.pk).requeue() == 1
    claim_one().step("charge", lambda: calls.append(2))
    assert calls == [1, 2]


def test_a_stale_page_forgets_nothing(browser: Client) -> None:
    message = held()
    message.step("charge", lambda: 5)
    form = form_of(browser, message, "charge")
    Step.objects.forget(message.pk, "charge")
    message.nack(delay=0)
    claim_one().step("charge", lambda: 6)
    answer = browser.post(url("forget_step", message.pk), form, follow=True)
    assert "changed in the meantime" in answer.content.decode()
    assert Step.objects.get().value == 6


def test_a_message_that_is_done_forgets_nothing(browser: Client) -> None:
    message = held()
    message.step("charge", lambda: 5)
    form = form_of(browser, message, "charge")
    message.ack()
    assert "Forget this step" not in page(browser, message)
    answer = browser.post(url("forget_step", message.pk), form, follow=True)
    assert "its message is done" in answer.content.decode()
    assert Step.objects.count() == 1
    assert not MessageEvent.objects.exists()


def test_who_lacks_the_permission_is_not_offered_it_and_may_not(client: Client) -> None:
    user = User.objects.create_user("viewer", password="v", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_message"))
    client.force_login(user)
    message = held()
    message.step("charge", lambda: 5)
    assert "Step done" in page(client, message)
    assert "Forget this step" not in page(client, message)
    assert client.get(forget_url(message, "charge")).status_code == 403
    assert client.post(url("forget_step", message.pk), {"name": "charge", "pin": ""}).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="forget_step"))
    client.force_login(User.objects.get(pk=user.pk))
    assert client.get(forget_url(message, "charge")).status_code == 200


def test_what_is_not_there_is_not_found(browser: Client) -> None:
    message = make_done()
    assert (
        "There is nothing to do: the message has no such step."
        in browser.get(forget_url(message, "charge")).content.decode()
    )
    assert browser.get(f"{url('forget_step', message.pk + 1)}?name=charge").status_code == 404
    assert browser.put(forget_url(message, "charge")).status_code == 405


@pytest.mark.django_db(transaction=True)
def test_a_wait_that_is_forgotten_is_woken_all_the_same() -> None:
    message = held()
    suspended(lambda: message.wait_for("paid:17"))
    assert Step.objects.forget(message.pk, "paid:17", by="ann")
    assert not Step.objects.forget(message.pk, "paid:17", by="ann")
    assert MessageEvent.objects.count() == 1
    Event.objects.emit("paid:17", 5)
    assert claim_one().wait_for("paid:17") == 5


@pytest.mark.parametrize(
    ("message_id", "name"), [("7", "charge"), (2**63, "charge"), (True, "charge"), (7, 17), (7, "")]
)
def test_what_is_no_step_of_a_message_is_refused(message_id: Any, name: Any) -> None:
    with pytest.raises((InvalidStep, InvalidMessage), match="must be"):
        Step.objects.forget(message_id, name)
