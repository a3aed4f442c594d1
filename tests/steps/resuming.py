"""A resumable step that writes a number in each slice, and may be cut off; and one that is left at a cursor."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.db import transaction

from django_dbqueue.models import Message
from tests.factories import waiting


class Cut(Exception):
    """What ends a handler in the middle of its step."""


def write(number: int) -> None:
    waiting(queue="written", payload=number)


def written() -> list[Any]:
    return [message.payload for message in Message.objects.filter(queue="written").order_by("pk")]


def count_to(end: int, message: Message, *, cut_at: int = -1) -> Any:
    """Write the numbers from the cursor on, one in a slice, and raise before the end of this one's."""
    with message.resumable_step("count") as step:
        if step.is_new:
            for number in range(step.cursor or 0, end):
                with transaction.atomic():
                    write(number)
                    step.save(number + 1)
                    if number == cut_at:
                        raise Cut
            step.result = f"counted to {step.cursor}"
    return step.result


def saved(message: Message, cursor: int) -> None:
    with suppress(Cut), message.resumable_step("count") as step:
        step.save(cursor)
        raise Cut


def cursor_of(message: Message) -> Any:
    with message.resumable_step("count") as step:
        return step.cursor
