"""Ordering a verb for all that match, as a browser does."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.test import Client

from django_dbqueue.models import BulkOperation, Failure, Message
from tests.admin.conftest import url
from tests.operations.orders import OPERATIONS

VERBS = ("requeue", "release", "cancel", "reject", "send-again", "drop")
PERMISSIONS = {verb: verb for verb in VERBS} | {"send-again": "resend"}


def fill(number: int = 60, queue: str = "q") -> None:
    Message.objects.enqueue_many(range(number), queue=queue)
    Message.objects.ready(queue).reject_waiting("broken")


def choose_all(client: Client, verb: str = "drop", query: str = "?state=dead&queue=q") -> Any:
    """What the browser sends after 'Select all 60 messages'."""
    some = Message.objects.order_by("pk").first()
    data = {
        "action": verb.replace("-", "_"),
        "select_across": "1",
        "index": 0,
        "_selected_action": [some.pk if some else 1],
    }
    return client.post(url("changelist") + query, data)


def confirm(client: Client, page: Any, verb: str = "drop", **more: str) -> Any:
    data = {"ticket": page.context["ticket"], "reason": "a bad deploy", **more}
    return client.post(url(f"order_{verb}", model="bulkoperation"), data)


def ordered(client: Client, verb: str = "drop", query: str = "?state=dead&queue=q") -> BulkOperation:
    response = confirm(client, choose_all(client, verb, query), verb)
    operation = BulkOperation.objects.latest("pk")
    assert response.url == url("change", operation.pk, model="bulkoperation")
    return operation


def notice(client: Client, response: HttpResponse) -> str:
    """What the page that a POST leads to says on top."""
    page = client.get(response["Location"])
    return " ".join(str(message) for message in page.context["messages"])


def untouched() -> bool:
    return not BulkOperation.objects.exists() and not Message.objects.in_queue(OPERATIONS).exists()


def group_of(queue: str) -> Failure:
    return Failure.objects.get(queue=queue)
