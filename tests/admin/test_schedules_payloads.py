"""Whom the page of a schedule shows its payload, and how who can't see it leaves it as it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client, override_settings

from django_dbqueue.models import Schedule
from tests.admin.scheduling import GOOD, added, errors, page, shown

pytestmark = pytest.mark.django_db


def test_the_payload_is_for_those_who_may_see_payloads_and_stays_if_it_is_left_empty(
    client_with: Callable[..., Client], browser: Client
) -> None:
    added(payload={"token": "s3cret"})
    blind = client_with("view_schedule", "change_schedule")
    reader = client_with("view_schedule")
    for client in (blind, reader):
        assert "s3cret" not in client.get(page("change", "nightly")).content.decode()
    seeing = client_with("view_schedule", "view_payload").get(page("change", "nightly")).content.decode()
    assert "s3cret" in seeing
    form = shown(blind, "change", "nightly")
    assert form["payload"] == ""
    blind.post(page("change", "nightly"), form | {"create": "on", "queue": "other"})
    assert (Schedule.objects.get().queue, Schedule.objects.get().payload) == ("other", {"token": "s3cret"})
    blind.post(page("change", "nightly"), shown(blind, "change", "nightly") | {"create": "on", "payload": "{}"})
    assert Schedule.objects.get().payload == {}


def test_what_is_redacted_is_never_shown_and_stays_if_it_is_left_empty(browser: Client) -> None:
    added(payload={"token": "s3cret", "days": 1})
    with override_settings(DBQUEUE={"REDACT": ["token"]}):
        text = browser.get(page("change", "nightly")).content.decode()
        assert "s3cret" not in text
        assert "redacted" in text
        browser.post(page("change", "nightly"), shown(browser, "change", "nightly") | {"create": "on", "key": "k"})
    row = Schedule.objects.get()
    assert (row.key, row.payload) == ("k", {"token": "s3cret", "days": 1})
    with override_settings(DBQUEUE={"REDACT": ["other"]}):
        assert "s3cret" in shown(browser, "change", "nightly")["payload"]


def test_a_payload_that_is_no_json_can_be_repaired(browser: Client) -> None:
    added()
    Schedule.objects.update(body="{broken", cron="never", timezone="Mars")
    form = shown(browser, "change", "nightly")
    assert form["payload"] == "{broken"
    assert "This is not JSON" in errors(browser.post(page("change", "nightly"), form | {"create": "on"}))
    browser.post(page("change", "nightly"), GOOD | {"seen": form["seen"]})
    assert Schedule.objects.get().payload == {}
