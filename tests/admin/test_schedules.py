"""Schedules in the admin: those of the code can be looked at, disabled and run; those of operators are made here."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.admin.sites import site
from django.test import Client, override_settings

from django_dbqueue.admin.schedule_pages import ScheduleAdmin
from django_dbqueue.models import Message, Queue, Schedule
from django_dbqueue.models.fields import clock
from django_dbqueue.schedules.declarations import Plan, read
from tests.admin.conftest import url
from tests.admin.scheduling import GOOD, added, errors, page, shown

pytestmark = pytest.mark.django_db


@pytest.fixture
def nightly() -> Plan:
    plan = read("nightly", {"queue": "reports", "cron": "30 3 * * *", "timezone": "Europe/Berlin"})
    Schedule.objects.begin(plan, declared_at=clock("default"))
    return plan


def next_due() -> Any:
    [row] = ScheduleAdmin(Schedule, site).get_queryset(None)  # type: ignore[arg-type]
    return ScheduleAdmin(Schedule, site).next_due(row)


def test_a_schedule_is_listed_with_what_is_next(browser: Client, nightly: Plan) -> None:
    before, shown, after = clock("default"), next_due(), clock("default")
    assert nightly.cron.after(before) <= shown <= nightly.cron.after(after)
    text = browser.get(url("changelist", model="schedule")).content.decode()
    for word in ("nightly", "reports", "30 3 * * *", "Europe/Berlin"):
        assert word in text
    assert re.search(r"\d+ (s|min) ago", text)
    assert browser.get(url("change", "nightly", model="schedule")).status_code == 200


def test_nothing_is_next_where_no_worker_declares_it_any_more(nightly: Plan) -> None:
    Schedule.objects.update(seen_at=clock("default") - timedelta(minutes=4))
    assert next_due() is None


def test_a_row_that_somebody_wrote_by_sql_is_shown_and_not_believed(browser: Client, nightly: Plan) -> None:
    Schedule.objects.update(cron="<b>never</b>", timezone="Mars")
    assert next_due() is None
    assert "&lt;b&gt;never&lt;/b&gt;" in browser.get(url("changelist", model="schedule")).content.decode()


def notice(response: Any) -> str:
    return " ".join(str(message) for message in response.context["messages"])


# Added, changed, deleted


def test_a_schedule_is_added_as_the_form_has_it_and_logged(browser: Client) -> None:
    form = GOOD | {"payload": '{"days": 1}', "key": "one", "missed": "all", "timezone": ""}
    with override_settings(TIME_ZONE="Asia/Tokyo"):
        assert shown(browser, "add")["timezone"] == "Asia/Tokyo"
        response = browser.post(page("add"), form, follow=True)
    assert "nightly" in notice(response)
    row = Schedule.objects.get()
    assert (row.name, row.queue, row.cron, row.timezone) == ("nightly", "reports", "30 3 * * *", "Asia/Tokyo")
    assert (row.is_added, row.missed, row.payload, row.key) == (True, "all", {"days": 1}, "one")
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.action_flag) == ("nightly", ADDITION)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"name": "no name"}, "'name'.*is not a queue name"),
        ({"name": ""}, "'name'.*required"),
        ({"queue": "no queue"}, "'queue'.*is not a queue name"),
        ({"queue": "emals", "create": ""}, "'queue'.*There is no queue 'emals'.*Did you mean 'emails'"),
        ({"cron": "0 25 * * *"}, "'cron'.*is not a cron expression.*five fields"),
        ({"timezone": "Europe/Berlni"}, "'timezone'.*Did you mean 'Europe/Berlin'"),
        ({"missed": "never"}, "'missed'.*never"),
        ({"payload": "{"}, "'payload'.*This is not JSON"),
        ({"payload": "NaN"}, "'payload'.*JSON"),
        ({"payload": '"' + "x" * 2_000_000 + '"'}, "'payload'.*1,048,576"),
        ({"key": "x" * 201}, "'key'.*200"),
    ],
)
def test_each_field_shows_what_is_wrong_with_it_and_nothing_is_written(
    browser: Client, wrong: dict[str, str], error: str
) -> None:
    Queue.objects.pause("emails")
    response = browser.post(page("add"), GOOD | wrong)
    text = html.unescape(errors(response))
    assert list(response.context["adminform"].form.errors) == list(wrong)[:1]
    assert re.search(error, text, re.DOTALL), text
    assert not Schedule.objects.exists()
    assert not LogEntry.objects.exists()


def test_a_name_that_a_schedule_has_is_refused_whoever_declares_it(browser: Client, nightly: Plan) -> None:
    assert "already" in errors(browser.post(page("add"), GOOD))
    with override_settings(DBQUEUE={"SCHEDULES": {"weekly": {"queue": "reports", "cron": "0 3 * * 1"}}}):
        assert "already" in errors(browser.post(page("add"), GOOD | {"name": "weekly"}))
    assert Schedule.objects.get().is_added is False


def test_without_the_library_the_form_names_what_to_install(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    assert "pip install" in errors(browser.post(page("add"), GOOD))


def test_what_is_shown_and_sent_back_changes_nothing_and_what_is_changed_is_logged(browser: Client) -> None:
    before = added(payload={"ü": [1]}, key="k", missed="skip")
    form = shown(browser, "change", "nightly")
    assert form["payload"] == '{\n  "ü": [\n    1\n  ]\n}'
    browser.post(page("change", "nightly"), form | {"create": "on"})
    row = Schedule.objects.get()
    same = ("queue", "cron", "timezone", "missed", "body", "key", "last_due")
    assert [getattr(row, name) for name in same] == [getattr(before, name) for name in same]
    form = shown(browser, "change", "nightly") | {"create": "on", "cron": "0 4 * * *", "payload": "[2]"}
    response = browser.post(page("change", "nightly"), form, follow=True)
    assert "nightly" in notice(response)
    row = Schedule.objects.get()
    assert (row.cron, row.payload, row.key) == ("0 4 * * *", [2], "k")
    assert row.last_due > before.last_due
    entry = LogEntry.objects.latest("pk")
    assert (entry.object_id, entry.action_flag) == ("nightly", CHANGE)
    assert "[2]" not in entry.change_message


def test_a_stale_page_changes_nothing(browser: Client) -> None:
    added()
    form = shown(browser, "change", "nightly") | {"create": "on", "queue": "mine"}
    Schedule.objects.disable("nightly", reason="noise")
    assert "changed in the meantime" in errors(browser.post(page("change", "nightly"), form))
    assert Schedule.objects.get().queue == "reports"


def test_one_that_is_deleted_is_gone_and_logged(browser: Client) -> None:
    added()
    assert browser.get(page("delete", "nightly")).status_code == 200
    browser.post(page("delete", "nightly"), {"post": "yes"})
    assert not Schedule.objects.exists()
    assert LogEntry.objects.get().action_flag == DELETION


def test_one_of_the_code_is_fixed_and_its_page_shows_it(browser: Client, nightly: Plan) -> None:
    text = browser.get(page("change", "nightly")).content.decode()
    assert "declared in the code" in text
    assert "<textarea" not in text
    assert browser.post(page("change", "nightly"), GOOD | {"cron": "* * * * *"}).status_code == 403
    assert browser.post(page("delete", "nightly"), {"post": "yes"}).status_code == 403
    selected = {"action": "delete_selected", "_selected_action": "nightly", "post": "yes"}
    browser.post(page("changelist"), selected)
    assert Schedule.objects.get().cron == "30 3 * * *"


# Disable, enable, run now


@pytest.mark.parametrize("of", ["code", "operator"])
def test_disabling_asks_for_a_reason_and_enabling_ends_it(browser: Client, of: str) -> None:
    if of == "operator":
        added()
    else:
        Schedule.objects.begin(read("nightly", {"queue": "reports", "cron": "* * * * *"}), declared_at=clock("default"))
    assert page("disable", "nightly") in browser.get(page("change", "nightly")).content.decode()
    form = shown(browser, "disable", "nightly")
    assert "required" in browser.post(page("disable", "nightly"), form).content.decode()
    assert not Schedule.objects.get().is_disabled
    response = browser.post(page("disable", "nightly"), form | {"reason": "too loud"}, follow=True)
    assert "nightly is disabled" in notice(response)
    row = Schedule.objects.get()
    assert (row.is_disabled, row.disabled_by, row.disabled_reason) == (True, "op", "too loud")
    text = browser.get(page("change", "nightly")).content.decode()
    assert "too loud" in text
    assert page("enable", "nightly") in text
    assert next_due() is None
    assert "is so already" in notice(browser.post(page("disable", "nightly"), form | {"reason": "x"}, follow=True))
    stale = form | {"reason": "x"}
    assert "left alone" in notice(browser.post(page("enable", "nightly"), stale, follow=True))
    response = browser.post(page("enable", "nightly"), shown(browser, "enable", "nightly"), follow=True)
    assert "continues from now" in notice(response)
    assert not Schedule.objects.get().is_disabled
    entries = LogEntry.objects.order_by("pk").values_list("change_message", flat=True)
    assert list(entries) == ["Disabled: too loud", "Enabled."]


def test_run_now_enqueues_one_message_for_each_page_that_is_sent(browser: Client) -> None:
    added(payload={"n": 1}, key="k")
    form = shown(browser, "run", "nightly")
    response = browser.post(page("run", "nightly"), form, follow=True)
    [message] = Message.objects.all()
    assert f"#{message.pk}" in notice(response)
    assert (message.payload, message.headers["dbqueue.run_by"]) == ({"n": 1}, "op")
    assert LogEntry.objects.get().change_message == f"Run now: #{message.pk}."
    assert "left alone" in notice(browser.post(page("run", "nightly"), form, follow=True)), "a second click"
    response = browser.post(page("run", "nightly"), shown(browser, "run", "nightly"), follow=True)
    assert f"#{message.pk} is live, and has the key" in notice(response)
    assert (Message.objects.count(), LogEntry.objects.count()) == (1, 1)


def test_one_of_the_code_runs_as_the_code_has_it_and_one_that_is_not_known_here_is_refused(
    browser: Client, nightly: Plan
) -> None:
    with override_settings(
        DBQUEUE={"SCHEDULES": {"nightly": {"queue": "reports", "cron": "30 3 * * *", "payload": [7]}}}
    ):
        browser.post(page("run", "nightly"), shown(browser, "run", "nightly"))
    assert [message.payload for message in Message.objects.all()] == [[7]]
    response = browser.post(page("run", "nightly"), shown(browser, "run", "nightly"), follow=True)
    assert "not known here" in notice(response)
    assert Message.objects.count() == 1


@pytest.mark.parametrize(
    ("verb", "needs"),
    [
        ("add", "add_schedule"),
        ("change", "change_schedule"),
        ("delete", "delete_schedule"),
        ("disable", "disable_schedule"),
        ("enable", "disable_schedule"),
        ("run", "run_schedule"),
    ],
)
def test_each_verb_needs_its_own_permission(client_with: Callable[..., Client], verb: str, needs: str) -> None:
    row = added()
    if verb == "enable":
        row = Schedule.objects.disable("nightly")
    every = {f"{each}_schedule" for each in ("view", "add", "change", "delete", "disable", "run")}
    where = page("add") if verb == "add" else page(verb, "nightly")
    form = GOOD | {
        "name": "other", "post": "yes", "reason": "x", "seen": str(row.revision), "schedule": str(row.revision),
        "nonce": "1", "queue": "changed",
    }  # fmt: skip
    for lacking in (needs, "view_schedule"):
        client = client_with(*(every - {lacking}))
        assert client.post(where, form).status_code == 403
        assert verb == "change" or client.get(where).status_code == 403
    kept = Schedule.objects.get()
    assert (kept.queue, kept.revision) == ("reports", row.revision)
    assert not Message.objects.exists()
    assert client_with("view_schedule", needs).post(where, form).status_code == 302
    changed = list(Schedule.objects.values("name", "queue", "revision")) != [
        {"name": "nightly", "queue": "reports", "revision": row.revision}
    ]
    assert changed or Message.objects.exists()
