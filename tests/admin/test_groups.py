"""The pages of groups: what is listed, in which order it runs, and who may pause or limit what."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client

from django_dbqueue.admin.group_actions import GroupActions
from django_dbqueue.models import Group, Message
from tests.admin.confirmations import form_of
from tests.admin.conftest import url
from tests.factories import claim_one, let_pass

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db
NAME = "tenant/17 <b>"
ID = quote(f"q/{NAME}")


def address(view: str, *args: str) -> str:
    return url(view, *args, model="group")


def send(group: str = NAME, queue: str = "q", **options: Any) -> Message:
    return Message.objects.enqueue({"n": 1}, queue=queue, group=group, **options)


def names(response: Any) -> list[str]:
    return [group.name for group in response.context["cl"].result_list]


def test_a_line_shows_what_waits_and_runs_and_what_holds_it(browser: Client, settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {"held": {"on_dead": "hold"}}}
    for _ in range(3):
        send()
    dead = send("h", queue="held")
    claim_one("held").reject("unwanted")
    let_pass(dead, 5)
    Group.objects.pause("p", "stopped", by="ann", reason="<i>fire")
    response = browser.get(address("changelist"))
    text = response.content.decode()
    assert names(response) == ["h", "stopped", NAME]
    assert "tenant/17 &lt;b&gt;" in text
    assert "<b>" not in text.partition('id="result_list"')[2]
    for words in (f"held by #{dead.pk}", "❚❚</span> paused", "&lt;i&gt;fire", ">2<", ">1 of 1<", ">1 of 1<"):
        assert words in text
    assert address("change", ID) in text
    assert names(browser.get(address("changelist"), {"queue": "q"})) == [NAME]
    assert names(browser.get(address("changelist"), {"q": NAME})) == [NAME]
    assert names(browser.get(address("changelist"), {"q": "h"})) == ["h"]
    assert "No group of this name" in browser.get(address("changelist"), {"q": "tenant"}).content.decode()


def test_without_groups_it_reports_that(browser: Client) -> None:
    Message.objects.enqueue(1, queue="q")
    assert "No group has messages that wait or run" in browser.get(address("changelist")).content.decode()


def test_the_page_of_a_group_shows_the_order_of_what_waits(browser: Client) -> None:
    messages = [send(key=f"k{number}") for number in range(4)]
    claim_one("q")
    text = browser.get(address("change", ID)).content.decode()
    places = [text.index(f">#{message.pk}</a>") for message in messages]
    assert places == sorted(places)
    order = text[places[0] :]
    assert order.index("running") < order.index("waiting")
    for words in ("1, as for its queue", "1 of 1", "k3", "in line"):
        assert words in text
    page = browser.get(url("change", messages[1].pk)).content.decode()
    assert f'href="{address("change", ID)}">tenant/17 &lt;b&gt;</a>' in page
    assert f"#{messages[0].pk} of its group tenant/17 &lt;b&gt; is running" in page
    assert f'href="{url("change", messages[0].pk)}">Open #{messages[0].pk}</a>' in page
    assert "9999-12" not in page


def test_the_order_is_for_who_may_see_messages(browser: Client, client_with: Callable[..., Client]) -> None:
    message = send()
    assert f"#{message.pk}" in browser.get(address("change", ID)).content.decode()
    text = client_with("view_group").get(address("change", ID)).content.decode()
    assert "1 of 1" in text
    assert f"#{message.pk}" not in text
    page = client_with("view_message").get(url("change", message.pk)).content.decode()
    assert address("change", ID) not in page
    assert "tenant/17 &lt;b&gt;" in page


def test_a_group_without_messages_has_a_page_where_its_queue_has_some(browser: Client) -> None:
    Message.objects.enqueue(1, queue="q")
    assert browser.get(address("change", quote("q/nobody"))).status_code == 200
    for odd in ("none/nobody", "q/", "no good/x", "q", "17", "x" * 300, "q/" + "x" * 201):
        assert browser.get(address("change", quote(odd))).status_code == 302, odd
        assert browser.get(address("pause", quote(odd))).status_code == 404, odd
    assert not Group.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_pause_and_resume_with_a_reason(browser: Client, operator: User) -> None:
    first, second = send(), send()
    form = form_of(browser.get(address("pause", ID)))
    assert "errorlist" in browser.post(address("pause_many"), form | {"reason": " "}).content.decode()
    assert not Group.objects.exists()
    response = browser.post(address("pause_many"), form | {"reason": "<i>fire"})
    assert response.headers["Location"] == address("change", ID)
    row = Group.objects.get()
    assert (row.name, row.is_paused, row.paused_by, row.pause_reason) == (NAME, True, "op", "<i>fire")
    assert Message.objects.claim(1, queue="q") == []
    page = browser.get(url("change", first.pk)).content.decode()
    assert "because its group tenant/17 &lt;b&gt; is paused" in page
    assert address("resume", ID) in page
    browser.post(address("resume_many"), form_of(browser.get(address("resume", ID))))
    assert not Group.objects.get().is_paused
    assert claim_one("q").pk == first.pk
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == ["Paused: <i>fire", "Resumed."]
    history = browser.get(url("history", ID, model="group"))
    assert history.status_code == 200
    assert "Paused: &lt;i&gt;fire" in history.content.decode()
    assert LogEntry.objects.first().get_admin_url() == address("change", ID)  # type: ignore[union-attr]
    assert Group.objects.order("q", NAME) == [second.pk]


@pytest.mark.django_db(transaction=True)
def test_the_limit_is_changed_and_removed(browser: Client) -> None:
    for _ in range(4):
        send()
    form = form_of(browser.get(address("limit", ID)))
    for odd in ("0", "10001", "x", "1.5"):
        assert "errorlist" in browser.post(address("limit_many"), form | {"limit": odd}).content.decode()
    assert not Group.objects.exists()
    browser.post(address("limit_many"), form | {"limit": "3"})
    assert Group.objects.get().width == 3
    assert len(Message.objects.claim(9, queue="q")) == 3
    text = browser.get(address("change", ID)).content.decode()
    assert "3 of its own; for its queue, 1" in text
    page = browser.get(address("limit", ID))
    assert 'value="3"' in page.content.decode()
    browser.post(address("limit_many"), form_of(page) | {"limit": ""})
    assert Group.objects.get().width is None
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == ["Limit set to 3.", "Limit removed."]


@pytest.mark.django_db(transaction=True)
def test_the_rate_is_changed_and_removed(browser: Client, settings: SettingsWrapper) -> None:
    send()
    assert browser.get(address("change", ID)).content.decode().count("as for its queue") == 1, "the limit"
    assert "whose groups have no rate" in browser.get(address("rate", ID)).content.decode()
    settings.DBQUEUE = {"QUEUES": {"q": {"group_rate": "5/s"}}}
    assert "5/s, as for its queue" in browser.get(address("change", ID)).content.decode()
    page = browser.get(address("rate", ID))
    assert "whose groups have the rate 5/s" in page.content.decode()
    for odd in ("0/s", "10001/s", "10", "10/d", "x"):
        assert "errorlist" in browser.post(address("rate_many"), form_of(page) | {"rate": odd}).content.decode()
    assert not Group.objects.filter(rate__isnull=False).exists()
    response = browser.post(address("rate_many"), form_of(page) | {"rate": " 30/m "}, follow=True)
    assert "has the rate 30/m." in response.content.decode()
    assert Group.objects.get().rate == "30/m"
    assert "30/m of its own; for its queue, 5/s" in browser.get(address("change", ID)).content.decode()
    page = browser.get(address("rate", ID))
    assert 'value="30/m"' in page.content.decode()
    response = browser.post(address("rate_many"), form_of(page) | {"rate": ""}, follow=True)
    assert "has no rate of its own any more" in response.content.decode()
    assert Group.objects.get().rate is None
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == ["Rate set to 30/m.", "Rate removed."]


def test_a_rate_without_one_of_the_queue_is_shown_and_its_group_listed(browser: Client) -> None:
    send()
    Group.objects.rate("q", NAME, "5000/h")
    Group.objects.rate("q", "idle", "10/s")
    assert "5000/h of its own; its queue has none" in browser.get(address("change", ID)).content.decode()
    response = browser.get(address("changelist"))
    assert names(response) == [NAME, "idle"]
    text = response.content.decode().partition('id="result_list"')[2]
    assert text.index(">5000/h<") < text.index(">10/s<")


def test_an_action_takes_several_and_leaves_the_paused_ones(browser: Client) -> None:
    lanes = {}
    for name in ("a", "b", "c"):
        lanes[name] = send(name).lane
    Group.objects.pause("q", "b", reason="old")
    data = {"action": "pause", "_selected_action": [*lanes.values(), 17], "index": 0}
    form = form_of(browser.post(address("changelist"), data))
    assert [pin.partition("/")[2] for pin in form["group"]] == ["q/a", "q/c"]
    browser.post(address("pause_many"), form)
    assert Group.objects.filter(is_paused=True).count() == 3
    assert Group.objects.get(name="b").pause_reason == "old"
    form = form_of(browser.post(address("changelist"), data | {"action": "limit"}))
    browser.post(address("limit_many"), form | {"limit": "5"})
    assert set(Group.objects.values_list("width", flat=True)) == {5}
    form = form_of(browser.post(address("changelist"), data | {"action": "rate"}))
    browser.post(address("rate_many"), form | {"rate": "2/s"})
    assert set(Group.objects.values_list("rate", flat=True)) == {"2/s"}


def test_all_that_are_listed_may_be_chosen_not_only_those_of_the_page(browser: Client) -> None:
    lanes = [send(f"g{number}").lane for number in range(30)]
    send("other", queue="other")
    data = {"action": "pause", "_selected_action": lanes[:1], "index": 0, "select_across": "1"}
    form = form_of(browser.post(f"{address('changelist')}?queue=q", data))
    assert len(form["group"]) == 30
    browser.post(address("pause_many"), form)
    assert Group.objects.filter(queue="q", is_paused=True).count() == 30
    assert Group.objects.count() == 30


def test_a_stale_page_changes_nothing(browser: Client) -> None:
    send()
    form = form_of(browser.get(address("limit", ID)))
    Group.objects.limit("q", NAME, 2)
    response = browser.post(address("limit_many"), form | {"limit": "9"}, follow=True)
    assert "changed in the meantime and was left alone" in response.content.decode()
    assert Group.objects.get().width == 2
    form = form_of(browser.get(address("limit", ID)))
    Group.objects.rate("q", NAME, "10/s")
    response = browser.post(address("limit_many"), form | {"limit": "9"}, follow=True)
    assert "changed in the meantime and was left alone" in response.content.decode()
    assert Group.objects.get().width == 2
    odd = {"group": ["", "x", "0.../none", "0.../q/", "0.../no good/x"], "limit": "9"}
    response = browser.post(address("limit_many"), odd, follow=True)
    assert "changed in the meantime and was left alone" in response.content.decode()
    assert Group.objects.count() == 1
    assert not LogEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("has_row", [False, True])
def test_of_two_operators_at_once_the_second_changes_nothing(
    browser: Client, client_with: Callable[..., Client], monkeypatch: pytest.MonkeyPatch, *, has_row: bool
) -> None:
    send()
    if has_row:
        Group.objects.limit("q", NAME, None)
    other = client_with("view_group", "change_group_limit")
    form = form_of(other.get(address("limit", ID)))
    first = form_of(browser.get(address("rate", ID)))
    ended, pages = threading.Event(), []
    change = GroupActions._change

    def second() -> None:
        try:
            pages.append(other.post(address("limit_many"), form | {"limit": "9"}, follow=True))
        finally:
            ended.set()
            connections.close_all()

    thread = threading.Thread(target=second)

    def changing(*arguments: Any) -> Any:
        monkeypatch.undo()
        thread.start()
        ended.wait(1)  # it can't end: it waits for this one's commit
        return change(*arguments)

    monkeypatch.setattr(GroupActions, "_change", changing)
    browser.post(address("rate_many"), first | {"rate": "2/s"})
    thread.join()
    assert "changed in the meantime and was left alone" in pages[0].content.decode()
    assert Group.objects.filter(rate="2/s", width=None).exists()
    assert [entry.change_message for entry in LogEntry.objects.all()] == ["Rate set to 2/s."]


def test_each_action_needs_its_permission(browser: Client, client_with: Callable[..., Client]) -> None:
    send()
    forms = {verb: form_of(browser.get(address(verb, ID))) for verb in ("pause", "limit", "rate")}
    answers = {"limit": "2", "rate": "2/s"}
    for verb, codename in (("pause", "pause_queue"), *((own, "change_group_limit") for own in answers)):
        other = "change_group_limit" if verb == "pause" else "pause_queue"
        for client in (client_with("view_group", other), client_with(codename)):
            assert client.get(address(verb, ID)).status_code == 403
            assert client.post(address(f"{verb}_many"), forms[verb] | answers).status_code == 403
        text = client_with("view_group", other).get(address("change", ID)).content.decode()
        assert f"dbqueue-verb-{verb}" not in text
        assert not Group.objects.exists()
        able = client_with("view_group", codename)
        assert able.get(address(f"{verb}_many")).status_code == 405
        able.post(address(f"{verb}_many"), form_of(able.get(address(verb, ID))) | answers)
        row = Group.objects.get()
        assert (row.is_paused, row.width, row.rate) == {
            "pause": (True, None, None), "limit": (False, 2, None), "rate": (False, None, "2/s"),
        }[verb]  # fmt: skip
        Group.objects.all().delete()


def test_the_list_of_messages_names_their_groups_where_there_are_some(browser: Client) -> None:
    Message.objects.enqueue(1, queue="other")
    assert "column-group_cut" not in browser.get(url("changelist")).content.decode()
    send()
    text = browser.get(url("changelist")).content.decode()
    assert "column-group_cut" in text
    assert "tenant/17 &lt;b&gt;" in text
