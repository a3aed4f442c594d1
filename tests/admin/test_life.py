"""The page of a message: why it is stuck, what can be done by whom, and its life as steps in time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_dbqueue.admin import lifeline
from django_dbqueue.models import ArchivedMessage, Message, MessageEvent, Queue, Worker
from django_dbqueue.models.fields import DbNow
from tests.admin.conftest import make_dead, make_done, make_stuck, url
from tests.factories import QUEUE, claim_one, held, waiting

pytestmark = pytest.mark.django_db
EVIL = '"></p><script>alert(1)</script>'


def page(client: Client, obj: Any, model: str = "message") -> str:
    response = client.get(url("change", obj.pk, model=model))
    assert response.status_code == 200
    return response.content.decode()


def why(text: str) -> str:
    [code] = re.findall(r'data-why="(\w+)"', text)
    return str(code)


def buttons(text: str) -> list[str]:
    return re.findall(r'class="button dbqueue-why-([\w-]+)" href', text)


def steps(text: str) -> list[str]:
    """The badges of the life line, and the words behind each."""
    found = []
    life = text.partition('class="dbqueue-steps"')[2].partition("</ol>")[0]
    for item in life.split("<li>")[1:]:
        words = re.sub(r'<time[^>]*>[^<]*</time>|<span class="dbqueue-gap">[^<]*</span>|<[^>]+>', " ", item)
        found.append(unescape(" ".join(words.split()[1:])))
    return found


# Why is it stuck?


def test_the_page_shows_why_with_the_evidence_and_the_buttons(browser: Client) -> None:
    Worker.objects.create(id=1, host="box", pid=17, queues="q", threads=1)
    message = Message.objects.enqueue(1, queue="q")
    Queue.objects.pause("q", by="ann", reason="the bank is down")
    text = page(browser, message)
    assert why(text) == "paused"
    assert "by ann: the bank is down" in text
    assert buttons(text) == ["resume", "reject", "drop"]
    assert url("resume", "q", model="queue") in text


@pytest.mark.parametrize(
    ("make", "code", "first"),
    [(make_stuck, "lease_over", "requeue"), (make_dead, "rejected", "requeue"), (make_done, "done", "send-again")],
)
def test_each_state_has_its_answer_and_what_can_be_done_first(
    browser: Client, make: Callable[[], Message], code: str, first: str
) -> None:
    text = page(browser, make())
    assert (why(text), buttons(text)[0]) == (code, first)


def test_buttons_are_for_those_who_may(client_with: Callable[..., Client]) -> None:
    message = make_dead()
    assert buttons(page(client_with("view_message"), message)) == []
    assert buttons(page(client_with("view_message", "drop_message"), message)) == ["drop"]
    waits = Message.objects.enqueue(1, queue="paused")
    Queue.objects.pause("paused")
    assert buttons(page(client_with("view_message", "pause_queue"), waits)) == [], "the queue's page is not theirs"
    assert buttons(page(client_with("view_message", "view_queue", "pause_queue"), waits)) == ["resume"]


@pytest.mark.parametrize("name", ["requeue", "send-again", "drop"])
def test_a_button_leads_to_the_confirmation_of_its_verb(browser: Client, name: str) -> None:
    message = make_dead()
    [link] = re.findall(rf'class="button dbqueue-why-{name}" href="([^"]+)"', page(browser, message))
    response = browser.get(unescape(link))
    assert response.status_code == 200
    assert f"#{message.pk}" in response.content.decode()
    assert Message.objects.get(pk=message.pk).is_dead, "a GET changes nothing"


def test_the_last_error_is_for_those_who_see_payloads(client_with: Callable[..., Client]) -> None:
    message = held(max_reads=1)
    message.nack(error="ValueError: card 4711 refused")
    for codenames, sees in ((("view_message",), False), (("view_message", "view_payload"), True)):
        text = page(client_with(*codenames), message)
        assert ("card 4711 refused" in text) is sees
        assert "ValueError" in text


def test_the_last_error_is_redacted(browser: Client, settings: Any) -> None:
    settings.DBQUEUE = {"REDACT": ["card"]}
    message = held(payload={"card": "4711-0815"}, max_reads=2)
    message.nack(error="ValueError: card 4711-0815 refused")
    claim_one().nack(error="ValueError: card 4711-0815 refused again")
    text = page(browser, message)
    assert "refused again" in text
    assert "4711-0815" not in text
    Message.objects.purge()
    text = page(browser, ArchivedMessage.objects.get(), "archivedmessage")
    assert "refused again" in text
    assert "4711-0815" not in text


# The life


def test_each_event_shows_how_long_after_the_one_before_it_was(browser: Client) -> None:
    message = make_done(QUEUE)
    sent = Message.objects.get(pk=message.pk).created_at
    spans = {"claimed_at": timedelta(milliseconds=40), "finished_at": timedelta(seconds=75)}
    Message.objects.filter(pk=message.pk).update(**{name: sent + after for name, after in spans.items()})
    text = page(browser, message)
    assert re.findall(r'dbqueue-gap">([^<]*)<', text) == ["", "+40 ms", "+1 min 14 s"]
    ended = (sent + spans["finished_at"]).isoformat()
    assert re.search(rf'datetime="{re.escape(ended)}">\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d<', text)


def test_a_life_is_shown_in_the_order_of_time(browser: Client) -> None:
    worker = Worker.objects.create(id=1, host="box", pid=17, queues=QUEUE, threads=1)
    message = held(max_reads=3)
    Message.objects.filter(pk=message.pk).update(worker_id=worker.pk, conn_id=5)
    message.nack(error="ValueError: no")
    claim_one()
    Message.objects.filter(pk=message.pk).update(available_at=DbNow())
    assert Message.objects.rescue(QUEUE) == 1
    claim_one().reject("unwanted")
    Message.objects.filter(pk=message.pk).requeue(by="ann")
    claim_one().ack()
    Message.objects.filter(pk=message.pk).send_again(by="bob")
    shown = steps(page(browser, message))
    badges = [re.sub(r" (?:by|delivery|session|#).*", "", step) for step in shown]
    assert badges == [
        "Sent",
        "Claimed",
        "Failed, to be retried ValueError: no",
        "Claimed",
        badges[4],
        "Claimed",
        "Rejected: moved to the dead letters unwanted",
        "Requeued, as if new",
        "Claimed",
        "Done",
        "Sent again as a new message",
    ]
    assert shown[1] == "Claimed by worker box:17, session 5 delivery 1"
    assert shown[4].startswith("Rescued, to be retried LeaseOver: ")
    assert "by ann" in shown[7]
    assert "by bob" in shown[10]
    assert shown[10].endswith(f"#{Message.objects.latest('id').pk}")


def test_each_step_has_its_time(browser: Client) -> None:
    message = make_dead()
    moments = re.findall(r'<time datetime="([^"]+)">', page(browser, message))
    assert len(moments) == 2
    assert sorted(map(datetime.fromisoformat, moments)) == list(map(datetime.fromisoformat, moments))


def test_a_dropped_message_is_shown_once(browser: Client) -> None:
    message = waiting()
    Message.objects.filter(pk=message.pk).drop_all("old", by="ann")
    assert steps(page(browser, message)) == ["Sent", "Dropped by ann old"]


def test_what_left_no_event_is_shown_by_the_row(browser: Client) -> None:
    dropped, died, waits = make_done(), make_dead(), held()
    Message.objects.filter(pk=dropped.pk).update(error="Dropped: old")
    Message.objects.filter(pk=waits.pk).update(read_count=4)
    MessageEvent.objects.all().delete()
    assert steps(page(browser, dropped))[-1] == "Dropped Dropped: old"
    assert steps(page(browser, died)) == ["Sent", "Died no such user"]
    assert "3 deliveries left no event" in page(browser, waits)
    assert "left no event" not in page(browser, held(queue="other"))


def test_the_life_goes_on_in_the_history(browser: Client) -> None:
    message = held()
    message.nack(error="ValueError: no")
    claim_one().ack()
    Message.objects.purge()
    shown = steps(page(browser, ArchivedMessage.objects.get(), "archivedmessage"))
    assert [step.split()[0] for step in shown] == ["Sent", "Claimed", "Failed,", "Claimed", "Done", "Moved"]


def test_the_latest_of_many_events_are_shown(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifeline, "EVENTS", 3)
    message = waiting(max_reads=0)
    for number in range(5):
        claim_one().nack(error=f"try {number}")
    text = page(browser, message)
    assert "Earlier events are not shown." in text
    assert [step[-5:] for step in steps(text) if step.startswith("Failed")] == ["try 2", "try 3", "try 4"]


def test_strange_words_are_escaped(browser: Client) -> None:
    message = held(queue="q")
    Worker.objects.create(id=1, host=EVIL, pid=17, queues="q", threads=1)
    Message.objects.filter(pk=message.pk).update(worker_id=1)
    assert "<script>alert" not in page(browser, message)
    message.nack(error=EVIL)
    Message.objects.filter(pk=message.pk).reject_waiting(EVIL, by=EVIL)
    Queue.objects.pause("q", by=EVIL, reason=EVIL)
    text = page(browser, message)
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 5
    waits = Message.objects.enqueue(1, queue="q")
    assert "<script>alert" not in page(browser, waits)


def test_what_the_admin_does_names_the_person(browser: Client) -> None:
    message = make_dead()
    form = browser.get(url("requeue", message.pk)).content.decode()
    [pin] = re.findall(r'name="message" value="([^"]+)"', form)
    browser.post(url("requeue_many"), {"message": pin, "back": "detail"})
    event = MessageEvent.objects.latest("id")
    assert (event.message_id, event.kind, event.actor) == (message.pk, "requeued", "op")


def test_the_page_costs_a_bounded_number_of_statements(browser: Client) -> None:
    message = make_stuck()
    with CaptureQueriesContext(connection) as queries:
        page(browser, message)
    assert len(queries) <= 25, [query["sql"][:80] for query in queries]
