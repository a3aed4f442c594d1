from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from django_dbqueue.models import Message, Queue
from tests.admin.confirmations import form_of
from tests.admin.conftest import url
from tests.factories import let_pause_end

pytestmark = pytest.mark.django_db


def address(view: str, *args: str) -> str:
    return url(view, *args, model="queue")


@pytest.fixture
def queue(db: None) -> str:
    Message.objects.enqueue(1, queue="q.1_x")
    return "q.1_x"


QUOTED = "q.1_5Fx"
DASHBOARD = "/admin/django_dbqueue/"


def test_pause_and_resume_with_a_reason(browser: Client, operator: User, queue: str) -> None:
    form = form_of(browser.get(address("pause", QUOTED)))
    assert not Queue.objects.exists()
    assert "errorlist" in browser.post(address("pause_many"), form | {"reason": " "}).content.decode()
    assert not Queue.objects.exists()
    assert browser.post(address("pause_many"), form | {"reason": "<i>fire"}).headers["Location"] == address(
        "change", QUOTED
    )
    row = Queue.objects.get()
    assert (row.name, row.is_paused, row.paused_by, row.pause_reason) == (queue, True, "op", "<i>fire")
    assert Message.objects.claim(1, queue=queue) == []
    assert "Paused: <i>fire" in LogEntry.objects.get().change_message
    for page in (address("changelist"), address("change", QUOTED), address("resume", QUOTED)):
        text = browser.get(page).content.decode()
        assert "&lt;i&gt;fire" in text
        assert "<i>fire" not in text
    form = form_of(browser.get(address("resume", QUOTED)))
    browser.post(address("resume_many"), form)
    assert not Queue.objects.get().is_paused
    assert len(Message.objects.claim(1, queue=queue)) == 1
    assert LogEntry.objects.count() == 2
    assert browser.get(url("history", QUOTED, model="queue")).status_code == 200


def test_the_list_action_takes_several_and_leaves_the_paused_ones(browser: Client, queue: str) -> None:
    Queue.objects.pause("b", by="me", reason="old")
    Message.objects.enqueue(1, queue="c")
    data = {"action": "pause", "_selected_action": [queue, "b", "c", "none", "<x>"], "index": 0}
    response = browser.post(address("changelist"), data)
    form = form_of(response)
    assert [pin.partition("/")[0] for pin in form["queue"]] == [queue, "c"]
    browser.post(address("pause_many"), form)
    assert Queue.objects.get(pk="b").pause_reason == "old"
    assert Queue.objects.paused_names() == {queue, "b", "c"}
    response = browser.post(address("changelist"), data | {"action": "resume"})
    browser.post(address("resume_many"), form_of(response))
    assert Queue.objects.paused_names() == set()


def test_a_stale_page_changes_nothing(browser: Client, queue: str) -> None:
    Queue.objects.pause(queue, by="me", reason="first")
    form = form_of(browser.get(address("resume", QUOTED)))
    Queue.objects.resume(queue)
    Queue.objects.pause(queue, by="me", reason="second")
    response = browser.post(address("resume_many"), form, follow=True)
    assert "changed in the meantime and was left alone" in response.content.decode()
    assert Queue.objects.get().pause_reason == "second"
    assert not LogEntry.objects.exists()


def test_pausing_needs_its_permission(browser: Client, client_with: Callable[..., Client], queue: str) -> None:
    form = form_of(browser.get(address("pause", QUOTED)))
    client = client_with("view_queue", "view_message")
    assert client.get(address("pause", QUOTED)).status_code == 403
    assert client.post(address("pause_many"), form).status_code == 403
    assert "dbqueue-verb-pause" not in client.get(address("change", QUOTED)).content.decode()
    assert 'value="pause"' not in client.get(address("changelist")).content.decode()
    assert not Queue.objects.exists()
    able = client_with("view_queue", "pause_queue")
    able.post(address("pause_many"), form_of(able.get(address("pause", QUOTED))))
    assert Queue.objects.get().is_paused


def test_unknown_queues_and_wrong_methods(browser: Client, queue: str) -> None:
    assert browser.get(address("pause", "none")).status_code == 404
    assert browser.get(address("pause_many")).status_code == 405
    response = browser.post(address("pause_many"), {"queue": ["none/0/", "<x>", ""], "reason": "x"}, follow=True)
    assert "changed in the meantime" in response.content.decode()
    assert not Queue.objects.exists()


def test_a_pause_with_an_end_shows_it_and_is_open_once_that_has_passed(browser: Client, queue: str) -> None:
    page = browser.get(address("pause", QUOTED))
    assert "Empty: until the queue is resumed. It is 20" in page.content.decode()
    done = browser.post(address("pause_many"), form_of(page) | {"reason": "tea break", "end": "2h"}, follow=True)
    row = Queue.objects.get()
    until = f"until {row.paused_until:%Y-%m-%d %H:%M:%S} UTC"
    assert f"Queue {queue} is paused {until}." in done.content.decode()
    assert row.paused_until - row.paused_at == timedelta(hours=2)
    assert f"Paused until {row.paused_until:%Y-%m-%d %H:%M} UTC: tea break" in LogEntry.objects.get().change_message
    for page in (address("changelist"), address("change", QUOTED), address("resume", QUOTED), DASHBOARD):
        assert until in browser.get(page).content.decode()
    let_pause_end(queue)
    for page in (address("changelist"), DASHBOARD):
        text = browser.get(page).content.decode()
        assert "until 20" not in text
        assert "tea break" not in text
    text = browser.get(address("change", QUOTED)).content.decode()
    assert "dbqueue-verb-pause" in text
    assert "dbqueue-verb-resume" not in text
    assert "tea" in text, "what the last pause was stays on the queue's own page"
    assert len(Message.objects.claim(1, queue=queue)) == 1


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("2120-12-01 08:00", datetime(2120, 12, 1, 8, tzinfo=UTC)),
        (" 2120-12-01 08:00 UTC ", datetime(2120, 12, 1, 8, tzinfo=UTC)),
        ("2120-12-01T08:00+02:00", datetime(2120, 12, 1, 6, tzinfo=UTC)),
        ("2120-12-01T08:00Z", datetime(2120, 12, 1, 8, tzinfo=UTC)),
        ("", None),
    ],
)
def test_an_end_is_a_date_and_time_in_utc_unless_it_names_another_zone(
    browser: Client, queue: str, typed: str, meant: datetime | None
) -> None:
    form = form_of(browser.get(address("pause", QUOTED)))
    browser.post(address("pause_many"), form | {"reason": "tea", "end": typed})
    assert Queue.objects.get().paused_until == meant


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        ("soon", "This is neither a duration above 0, such as 2h, nor a date and time, such as 2026-12-01 08:00."),
        ("0", "This is neither a duration above 0"),
        ("-2h", "This is neither a duration above 0"),
        ("99999999w", "This is neither a duration above 0"),
        ("9500-01-01 00:00", "This is neither a duration above 0"),
        ("2020-12-01 08:00", "2020-12-01 08:00 UTC has passed: it is 20"),
    ],
)
def test_an_end_that_can_not_be_is_refused_on_the_page(browser: Client, queue: str, typed: str, error: str) -> None:
    form = form_of(browser.get(address("pause", QUOTED)))
    page = browser.post(address("pause_many"), form | {"reason": "tea", "end": typed})
    assert error in page.content.decode()
    assert not Queue.objects.exists()
    browser.post(address("pause_many"), form_of(page) | {"reason": "tea", "end": "15m"})
    assert Queue.objects.get().is_paused


def test_the_pause_of_one_queue_can_be_changed_and_claims_stay_closed(browser: Client, queue: str) -> None:
    Queue.objects.pause(queue, for_=60, by="me", reason="old")
    assert "Change the pause" in browser.get(address("change", QUOTED)).content.decode()
    page = browser.get(address("pause", QUOTED))
    assert 'value="old"' in page.content.decode()
    browser.post(address("pause_many"), form_of(page) | {"reason": "longer", "end": "2h"})
    row = Queue.objects.get()
    assert (row.is_paused, row.pause_reason, row.paused_by) == (True, "longer", "op")
    assert row.paused_until - row.paused_at == timedelta(hours=2)


def test_a_page_that_shows_a_pause_which_has_ended_is_stale(browser: Client, queue: str) -> None:
    Queue.objects.pause(queue, for_=60, by="me", reason="old")
    form = form_of(browser.get(address("resume", QUOTED)))
    let_pause_end(queue)
    response = browser.post(address("resume_many"), form, follow=True)
    assert "changed in the meantime and was left alone" in response.content.decode()
