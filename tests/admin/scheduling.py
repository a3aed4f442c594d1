"""Pages of schedules: what is sent to them, what their fields hold, and what they complain of."""

from __future__ import annotations

import html
import re
from typing import Any

from django.test import Client

from django_dbqueue.models import Schedule
from tests.admin.conftest import url

GOOD = {
    "name": "nightly", "queue": "reports", "create": "on", "cron": "30 3 * * *", "timezone": "Europe/Berlin",
    "missed": "latest", "payload": "", "key": "",
}  # fmt: skip


def page(view: str, *args: str) -> str:
    return url(view, *args, model="schedule")


def added(**changes: Any) -> Schedule:
    options = {"queue": "reports", "cron": "30 3 * * *", "timezone": "Europe/Berlin"}
    return Schedule.objects.add("nightly", **(options | changes))


def shown(client: Client, view: str, *args: str) -> dict[str, str]:
    """What the fields of a page hold."""
    response = client.get(page(view, *args))
    assert response.status_code == 200
    text = response.content.decode()
    fields = dict(re.findall(r'<input type="(?:text|hidden|number)" name="(\w+)" value="([^"]*)"', text))
    fields |= re.findall(r'<select name="(missed)".*?<option value="([^"]*)" selected', text, re.DOTALL)
    fields |= dict(re.findall(r'<textarea name="(\w+)"[^>]*>\r?\n?(.*?)</textarea>', text, re.DOTALL))
    fields.pop("csrfmiddlewaretoken", None)
    return {name: html.unescape(value) for name, value in fields.items()}


def errors(response: Any) -> str:
    assert response.status_code == 200
    form = response.context["adminform"].form
    assert form.errors
    return str(dict(form.errors))
