"""What an operator does: the right row, by the right person, with a reason; and what can't be done of it is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from django_dbqueue.models import Message
from django_dbqueue.operations.verbs import VERBS
from tests.admin.confirmations import ONE_EACH, ask, confirm, form_of
from tests.admin.conftest import make_dead, make_delayed, make_done, make_ready, make_stuck, url
from tests.factories import row

pytestmark = pytest.mark.django_db
LEGAL = [
    ("requeue", make_stuck, "ready"),
    ("requeue", make_dead, "ready"),
    ("release", make_stuck, "ready"),
    ("due-now", make_delayed, "ready"),
    ("reject", make_ready, "dead"),
    ("reject", make_stuck, "dead"),
    ("send-again", make_done, "done"),
    ("send-again", make_dead, "dead"),
    ("drop", make_ready, "done"),
    ("drop", make_stuck, "done"),
    ("drop", make_dead, "done"),
]
ILLEGAL = [
    ("requeue", make_ready),
    ("requeue", make_done),
    ("due-now", make_ready),
    ("due-now", make_stuck),
    ("due-now", make_dead),
    ("release", make_ready),
    ("release", make_dead),
    ("release", make_done),
    ("reject", make_dead),
    ("reject", make_done),
    ("send-again", make_ready),
    ("send-again", make_stuck),
    ("drop", make_done),
]


@pytest.mark.parametrize(("verb", "make", "state"), LEGAL)
def test_a_button_leads_to_a_confirmation_that_does_it_and_logs_it(
    browser: Client, operator: User, verb: str, make: Callable[..., Message], state: str
) -> None:
    message = make()
    before = row(message)
    form = ask(browser, verb, message)
    assert row(message) == before  # GET changes nothing
    assert "1 message." in confirm(browser, verb, form)
    assert getattr(Message.objects, state)("q").filter(pk=message.pk).exists()
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id, entry.object_repr) == (operator, str(message.pk), f"q #{message.pk}")
    if VERBS[verb].asks_reason:
        assert "because" in entry.change_message
        assert row(message)["error"].endswith(" by op: because")


@pytest.mark.parametrize(("verb", "make"), ILLEGAL)
def test_what_the_state_does_not_allow_is_not_offered_and_not_done(
    browser: Client, verb: str, make: Callable[..., Message]
) -> None:
    message = make()
    before = row(message)
    form = ask(browser, verb, message)
    assert "message" not in form
    stage = {"ready": "waiting"}.get(verb, "")
    due = f"{message.due_at:%Y%m%d%H%M%S%f}"
    for stage in ("waiting", "taken", "dead", "finished"):
        pin = f"{message.pk}:{message.claim_token or ''}:{stage}:{due}:q"
        assert "left alone" in confirm(browser, verb, {"message": [pin], "reason": "x", "nonce": stage})
    assert row(message) == before
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(("verb", "make"), ONE_EACH)
def test_the_list_action_does_it_to_the_ticked_ones(browser: Client, verb: str, make: Callable[..., Message]) -> None:
    first, second, third = make(), make(), make()
    untouched = row(second)
    response = browser.post(
        f"{url('changelist')}?state=dead&queue=q",
        {"action": verb.replace("-", "_"), "_selected_action": [first.pk, third.pk], "index": 0},
    )
    form = form_of(response)
    assert len(form["message"]) == 2
    assert not LogEntry.objects.exists()
    response = browser.post(url(f"{verb}_many"), form)
    assert response.headers["Location"] == f"{url('changelist')}?state=dead&queue=q"
    assert row(second) == untouched
    assert set(LogEntry.objects.values_list("object_id", flat=True)) == {str(first.pk), str(third.pk)}


def test_what_cannot_be_done_to_some_is_shown_and_they_are_left_out(browser: Client) -> None:
    dead, done = make_dead(), make_done()
    data = {"action": "requeue", "_selected_action": [dead.pk, done.pk, 10**18], "index": 0}
    response = browser.post(url("changelist"), data)
    assert "Left alone, because it can&#x27;t be done in their state" in response.content.decode().replace(
        "'", "&#x27;"
    )
    assert len(form_of(response)["message"]) == 1
    data["_selected_action"] = [done.pk]
    assert browser.post(url("changelist"), data).status_code == 302


@pytest.mark.parametrize(("verb", "make"), ONE_EACH)
def test_nothing_goes_without_the_verbs_own_permission(
    browser: Client, client_with: Callable[..., Client], verb: str, make: Callable[..., Message]
) -> None:
    message = make()
    before = row(message)
    form = ask(browser, verb, message)
    others = {"requeue_message", "release_message", "reject_message", "resend_message", "drop_message"}
    others |= {"hasten_message", "move_message", "cancel_message"}
    others.remove(f"{VERBS[verb].permission}_message")
    client = client_with("view_message", *others)
    assert client.get(url(verb, message.pk)).status_code == 403
    assert client.post(url(f"{verb}_many"), form).status_code == 403
    listed = client.get(f"{url('changelist')}?q={message.pk}").content.decode()
    assert f'value="{verb.replace("-", "_")}"' not in listed
    data = {"action": verb.replace("-", "_"), "_selected_action": [message.pk], "index": 0}
    assert "message" not in form_of(client.post(f"{url('changelist')}?q={message.pk}", data, follow=True))
    assert row(message) == before
    assert Message.objects.count() == 1
    own = client_with("view_message", f"{VERBS[verb].permission}_message")
    assert "1 message." in confirm(own, verb, ask(own, verb, message))


def test_the_permission_is_checked_again_when_it_is_sent(client_with: Callable[..., Client]) -> None:
    client, message = client_with("view_message", "drop_message"), make_ready()
    form = ask(client, "drop", message)
    from django.contrib.auth.models import User

    User.objects.get(pk=client.session["_auth_user_id"]).user_permissions.clear()
    assert client.post(url("drop_many"), form).status_code == 403
    assert Message.objects.ready().count() == 1


def test_strangers_are_sent_to_the_login_page(db: None) -> None:
    message = make_ready()
    for page in (url("changelist"), url("change", message.pk), url("drop", message.pk), url("drop_many")):
        assert "/login/" in Client().get(page).headers["Location"]


def test_a_post_needs_the_csrf_token(operator: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(operator)
    message = make_ready()
    assert client.post(url("drop_many"), ask(client, "drop", message) | {"csrfmiddlewaretoken": "x"}).status_code == 403
    assert Message.objects.ready().count() == 1


def test_methods_are_kept(browser: Client) -> None:
    message = make_ready()
    assert browser.get(url("drop_many")).status_code == 405
    assert browser.post(url("drop", message.pk)).status_code == 405


def test_a_reason_is_requested_until_it_is_given(browser: Client) -> None:
    message = make_ready()
    form = ask(browser, "drop", message)
    for bad in ("", "   ", "x" * 501, "a\0b"):
        response = browser.post(url("drop_many"), form | {"reason": bad})
        assert "errorlist" in response.content.decode()
        assert form_of(response)["message"] == form["message"]
    assert Message.objects.ready().count() == 1
    assert "1 message." in confirm(browser, "drop", form)


# -- keys -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["requeue", "send-again"])
def test_a_key_that_a_newer_message_has_is_reported_and_the_others_go_on(browser: Client, verb: str) -> None:
    held, free = make_dead(key="k<b>"), make_dead(key="free")
    form = ask(browser, verb, free)
    form["message"] += ask(browser, verb, held)["message"]
    Message.objects.enqueue(1, queue="q", key="k<b>")
    page = confirm(browser, verb, form)
    assert "1 message." in page
    assert f"q #{held.pk} a newer live message has its key 'k<b>'." in page
    assert Message.objects.dead().filter(pk=held.pk).exists()
    assert LogEntry.objects.get().object_id == str(free.pk)


def test_sent_again_names_what_it_repeats(browser: Client) -> None:
    done = make_done(key="k", headers={"trace": "t"})
    confirm(browser, "send-again", ask(browser, "send-again", done))
    new = Message.objects.ready().get()
    assert (new.payload, new.key, new.headers["trace"]) == ({"n": 1}, "k", "t")
    assert done.pk in new.headers.values()


def test_what_cannot_be_sent_again_is_reported(browser: Client) -> None:
    broken, whole = make_dead(), make_dead()
    Message.objects.filter(pk=broken.pk).update(body="{")
    form = ask(browser, "send-again", broken)
    form["message"] += ask(browser, "send-again", whole)["message"]
    page = confirm(browser, "send-again", form)
    assert f"q #{broken.pk}" in page
    assert "not JSON" in page
    assert "Send again: 1 message." in page


# -- another queue ----------------------------------------------------------------------------------------


def test_a_message_goes_to_the_queue_that_the_page_asks_for(browser: Client) -> None:
    message = make_dead(key="k")
    make_ready("there")
    form = ask(browser, "move", message) | {"queue": "there"}
    assert "Move: 1 message." in confirm(browser, "move", form)
    assert (row(message)["queue"], row(message)["live"]) == ("there", 1)
    assert LogEntry.objects.get().change_message == "Moved to there."


def test_a_queue_that_is_nowhere_needs_a_second_confirmation(browser: Client) -> None:
    message = make_ready()
    form = ask(browser, "move", message)
    for bad in ("", "no good", "thier", "dbqueue.operations"):
        response = browser.post(url("move_many"), form | {"queue": bad})
        assert "errorlist" in response.content.decode(), bad
        assert form_of(response)["message"] == form["message"]
    assert row(message)["queue"] == "q"
    assert "1 message." in confirm(browser, "move", form | {"queue": "thier", "create": "on"})
    assert row(message)["queue"] == "thier"


def test_what_can_not_be_in_that_queue_is_reported_and_the_others_go_on(browser: Client) -> None:
    first, keyed, there = make_ready(), make_ready(key="k"), make_ready("there", key="k")
    form = ask(browser, "move", first)
    for message in (keyed, there):
        form["message"] += ask(browser, "move", message)["message"]
    page = confirm(browser, "move", form | {"queue": "there"})
    assert "Move: 1 message." in page
    assert f"q #{keyed.pk} a newer live message has its key 'k'." in page
    assert f"there #{there.pk} is in that queue already." in page


def test_a_stale_page_moves_nothing_out_of_a_third_queue(browser: Client) -> None:
    message = make_ready()
    make_ready("there")
    form = ask(browser, "move", message) | {"queue": "there"}
    Message.objects.filter(pk=message.pk).move_to("elsewhere")
    assert "changed in the meantime" in confirm(browser, "move", form)
    assert row(message)["queue"] == "elsewhere"


def test_moving_needs_its_own_permission(client_with: Callable[..., Client], browser: Client) -> None:
    message = make_ready()
    form = ask(browser, "move", message) | {"queue": "q2", "create": "on"}
    client = client_with("view_message", "requeue_message", "drop_message", "resend_message")
    assert client.get(url("move", message.pk)).status_code == 403
    assert client.post(url("move_many"), form).status_code == 403
    assert row(message)["queue"] == "q"
