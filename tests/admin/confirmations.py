"""Asking for a verb and confirming it, as a browser does."""

from __future__ import annotations

import html
import re
from typing import Any

from django.test import Client

from django_dbqueue.models import Message
from tests.admin.conftest import make_dead, make_delayed, make_done, make_ready, make_stuck, url

ONE_EACH = [("requeue", make_dead), ("release", make_stuck), ("reject", make_ready), ("send-again", make_done)]
ONE_EACH += [("drop", make_dead), ("due-now", make_delayed), ("cancel", make_ready)]


def form_of(response: Any) -> dict[str, Any]:
    """The fields of a confirmation page as a browser sends them."""
    page = response.content.decode()
    form: dict[str, Any] = {"reason": "because"}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page):
        form.setdefault(name, []).append(html.unescape(value))
    return form


def ask(client: Client, verb: str, message: Message) -> dict[str, Any]:
    response = client.get(url(verb, message.pk))
    assert response.status_code == 200
    return form_of(response)


def confirm(client: Client, verb: str, form: dict[str, Any]) -> str:
    """Send a confirmation, and return what the next page says."""
    response = client.post(url(f"{verb}_many"), form, follow=True)
    assert response.status_code == 200
    return " ".join(str(message) for message in response.context["messages"])
