"""Handlers that fail, messages that they failed on, and what the list of failures shows of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.test import Client

from django_dbqueue.models import Failure, Message
from tests.admin.conftest import url
from tests.factories import held


class PaymentRefused(Exception):
    """What a payment service says."""


def pay(message: Message) -> None:
    raise PaymentRefused(f"payment {message.pk} was refused")


def send(message: Message) -> None:
    raise TimeoutError(f"no answer to {message.pk}")


def failed(step: Callable[[Message], None] = pay, *, queue: str = "shop", dead: bool = True, **options: Any) -> Message:
    """A message that a handler failed on; dead by it, or to be tried again."""
    message = held(queue=queue, max_reads=1 if dead else 5, **options)
    fail_again(message, step)
    return message


def fail_again(message: Message, step: Callable[[Message], None] = pay) -> None:
    try:
        step(message)
    except Exception as error:
        message.nack(error=error, delay=900)


def group(step: str = "pay") -> Failure:
    return Failure.objects.get(place__endswith=f":{step}")


def page(client: Client, query: str = "") -> str:
    return client.get(url("changelist", model="failure") + query).content.decode()


def rows(client: Client, query: str = "") -> list[Any]:
    response = client.get(url("changelist", model="failure") + query)
    return list(response.context["cl"].result_list)
