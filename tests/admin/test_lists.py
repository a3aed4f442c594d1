from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_dbqueue.admin import bounded_lists, queues
from django_dbqueue.admin.state_words import WORDS
from django_dbqueue.models import ArchivedMessage, Group, Message, Queue, Worker
from tests.admin.conftest import make_dead, make_done, make_stuck, url

pytestmark = pytest.mark.django_db

PAGES = ("", "?state=ready", "?state=dead&queue=q", "?state=done", "?q=1", "?q=k", "?q=k&state=ready&queue=q")


def ids_on(response: Any) -> list[int]:
    return [row.pk for row in response.context["cl"].result_list]


@pytest.fixture
def every_state(operator: User) -> dict[str, Message]:
    rows = {"done": make_done(), "dead": make_dead(), "stuck": make_stuck()}
    Message.objects.enqueue(1, queue="q")
    (rows["running"],) = Message.objects.claim(1, queue="q", lease=600)
    rows["ready"] = Message.objects.enqueue(1, queue="q", key="k")
    rows["delayed"] = Message.objects.enqueue(1, queue="q", delay=600)
    rows["waiting"] = Message.objects.enqueue(1, queue="q", group="g")
    Group.objects.pause("q", "g")
    return rows


@pytest.fixture
def pages(every_state: dict[str, Message]) -> Iterator[str]:
    row = every_state["stuck"].pk
    return iter(
        [
            "/admin/",
            "/admin/django_dbqueue/",
            *(url("changelist") + page for page in PAGES),
            url("change", row),
            url("history", row),
            url("requeue", row),
            url("changelist", model="queue"),
            url("change", "q", model="queue"),
            url("pause", "q", model="queue"),
            url("changelist", model="worker"),
            url("changelist", model="archivedmessage"),
        ]
    )


@pytest.mark.parametrize("name", WORDS)
def test_each_state_lists_its_own(browser: Client, every_state: dict[str, Message], name: str) -> None:
    response = browser.get(url("changelist"), {"state": name})
    assert ids_on(response) == [every_state[name].pk]
    assert f'dbqueue-{name}"><span aria-hidden="true">{WORDS[name].symbol}</span> {name}' in response.content.decode()


def test_a_bare_list_opens_with_what_is_stuck(browser: Client, every_state: dict[str, Message]) -> None:
    assert ids_on(browser.get(url("changelist"))) == [every_state["stuck"].pk]


def test_a_bare_list_opens_with_what_is_ready_when_nothing_is_stuck(browser: Client) -> None:
    first, second = (Message.objects.enqueue(n, queue=queue) for n, queue in enumerate("ab"))
    assert ids_on(browser.get(url("changelist"))) == [first.pk, second.pk]
    assert ids_on(browser.get(url("changelist"), {"queue": "b"})) == [second.pk]


def test_the_stuck_ones_are_one_click_from_the_index(browser: Client) -> None:
    link = f'href="{url("changelist")}?state=stuck"'
    assert link in browser.get("/admin/django_dbqueue/").content.decode()
    assert link in browser.get("/admin/").content.decode()


def test_no_page_counts_the_messages_or_reads_them_without_a_bound(browser: Client, pages: Iterator[str]) -> None:
    """How many rows each statement reads is asked of the server in test_scale.py."""
    bounded = re.compile(r"LIMIT \d+|\bid. (=|IN) ?\(?\d+|SELECT DISTINCT queue", re.IGNORECASE)
    for page in pages:
        with CaptureQueriesContext(connection) as queries:
            response = browser.get(page)
        assert response.status_code == 200, page
        about = [query["sql"] for query in queries if re.search(r"django_dbqueue_(archived)?message", query["sql"])]
        assert not [sql for sql in about if "COUNT(" in sql.upper() and ") AS counted" not in sql], page
        assert not [sql for sql in about if not bounded.search(sql)], page
        assert not [query["sql"] for query in queries if query["sql"].startswith(("INSERT", "UPDATE", "DELETE"))], page


def test_a_list_stops_at_its_cap_and_reports_it(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_lists, "LIST_CAP", 60)
    Message.objects.enqueue_many(range(70), queue="a")
    Message.objects.enqueue_many(range(70), queue="b")
    page = browser.get(url("changelist"), {"state": "ready"}).content.decode()
    assert "60+ messages" in page
    assert "are listed. Choose a queue or search" in page
    second = browser.get(url("changelist"), {"state": "ready", "p": 2})
    assert len(ids_on(second)) == 10
    assert browser.get(url("changelist"), {"state": "ready", "p": 3}).status_code == 302


def test_the_order_is_that_of_the_claim(browser: Client) -> None:
    low, high = (Message.objects.enqueue(n, queue="q", priority=n) for n in (-5, 5))
    middle = Message.objects.enqueue(0, queue="q")
    assert ids_on(browser.get(url("changelist"), {"state": "ready"})) == [high.pk, middle.pk, low.pk]


def test_search_finds_an_id_in_any_state(browser: Client, every_state: dict[str, Message]) -> None:
    for message in every_state.values():
        assert ids_on(browser.get(url("changelist"), {"q": f" {message.pk} "})) == [message.pk]
    done = every_state["done"].pk
    assert ids_on(browser.get(url("changelist"), {"q": done, "state": "ready"})) == []
    assert ids_on(browser.get(url("changelist"), {"q": "9" * 19})) == []
    assert ids_on(browser.get(url("changelist"), {"q": "9" * 300})) == []


def test_search_finds_a_key_in_every_queue_or_the_chosen_one(browser: Client) -> None:
    old = make_done("a", key="Ünïcode key")
    live = Message.objects.enqueue(1, queue="a", key="Ünïcode key")
    other = Message.objects.enqueue(1, queue="b", key="Ünïcode key")
    Message.objects.enqueue(1, queue="b", key="ünïcode key")
    assert ids_on(browser.get(url("changelist"), {"q": "Ünïcode key"})) == [live.pk, old.pk, other.pk]
    assert ids_on(browser.get(url("changelist"), {"q": "Ünïcode key", "queue": "b"})) == [other.pk]
    assert ids_on(browser.get(url("changelist"), {"q": "Ünïcode key", "state": "done"})) == [old.pk]


def test_what_search_does_not_find_is_stated(browser: Client) -> None:
    assert "No message has this id or this key." in browser.get(url("changelist"), {"q": "x" * 300}).content.decode()
    assert browser.get(url("changelist"), {"q": "x\0y"}).status_code == 200


@pytest.mark.parametrize("query", ["body__contains=x", "status=n", "id__gt=0", "state__x=1"])
def test_a_url_can_filter_by_nothing_else(client_with: Callable[..., Client], query: str) -> None:
    client = client_with("view_message")
    assert client.get(f"{url('changelist')}?{query}").status_code == 400


def test_odd_values_of_the_filters_are_no_error(browser: Client, every_state: dict[str, Message]) -> None:
    for query in ("state=zzz", "queue=none-such", "queue=<b>", "state=ready&state=dead", "p=abc", "o=1.-2", "all="):
        assert browser.get(f"{url('changelist')}?{query}").status_code == 200, query


def test_empty_lists_report_it(browser: Client) -> None:
    for name, state in WORDS.items():
        assert str(state.none) in browser.get(url("changelist"), {"state": name}).content.decode()
    for model in ("queue", "worker", "archivedmessage"):
        assert browser.get(url("changelist", model=model)).status_code == 200


def test_queues_are_listed_with_and_without_a_row_and_looking_makes_none(browser: Client) -> None:
    Message.objects.enqueue(1, queue="busy:1.x_y")
    Queue.objects.pause("asleep", by="me", reason="<b>why</b>")
    response = browser.get(url("changelist", model="queue"))
    assert [queue.name for queue in response.context["cl"].result_list] == ["asleep", "busy:1.x_y"]
    assert "&lt;b&gt;why&lt;/b&gt;" in response.content.decode()
    assert "?queue=busy%3A1.x_y&amp;state=ready" in response.content.decode()
    assert browser.get(url("change", "busy_3A1.x_5Fy", model="queue")).status_code == 200
    assert browser.get(url("change", "none", model="queue")).status_code == 302
    assert set(Queue.objects.values_list("name", flat=True)) == {"asleep"}


def test_counts_of_a_queue_are_capped(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "CELL_CAP", 5)
    Message.objects.enqueue_many(range(9), queue="q")
    assert ">5+</a>" in browser.get(url("changelist", model="queue")).content.decode()


def test_an_owner_is_shown_with_its_pulse(browser: Client) -> None:
    message = make_stuck()
    Message.objects.filter(pk=message.pk).update(worker_id=7)
    assert "its worker is gone" in browser.get(url("changelist")).content.decode()
    Worker.objects.create(id=7, host="h<b>", pid=1, queues="q", threads=1)
    page = browser.get(url("changelist")).content.decode()
    assert "h&lt;b&gt;:1" in page
    assert "beats" in page
    assert "beats" in browser.get(url("changelist", model="worker")).content.decode()


def test_the_history_is_listed_newest_first_and_found_by_the_messages_id(browser: Client) -> None:
    first, second = make_done(), make_done()
    Message.objects.done().purge()
    response = browser.get(url("changelist", model="archivedmessage"))
    assert [row.message_id for row in response.context["cl"].result_list] == [second.pk, first.pk]
    response = browser.get(url("changelist", model="archivedmessage"), {"q": first.pk})
    assert [row.message_id for row in response.context["cl"].result_list] == [first.pk]
    assert browser.get(url("changelist", model="archivedmessage"), {"q": "x"}).status_code == 200
    row = ArchivedMessage.objects.first()
    assert row
    assert browser.get(url("change", row.pk, model="archivedmessage")).status_code == 200
