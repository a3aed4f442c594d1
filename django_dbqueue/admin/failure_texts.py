"""What a page shows of the errors of failure groups, to whom: class, place and text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django.db.models.functions import Left

from django_dbqueue.admin.contents import ERROR_READ, excerpts
from django_dbqueue.admin.lifeline import detail_of
from django_dbqueue.consumers.registry import has_consumer, registered
from django_dbqueue.failures.fingerprint import names_class
from django_dbqueue.models import Failure, MessageEvent
from django_dbqueue.redaction.masking import UNTOLD
from django_dbqueue.redaction.policy import error_text, is_redacting

_IN_FILE: Final = re.compile(r"([^\W\d]\w*(?:/\w+)*)\.py:(\S+)")


@dataclass(frozen=True, slots=True)
class Texts:
    """A group's class, or the words that stand in for one; the place; and what one of its errors says, if anything."""

    exception: str
    place: str
    detail: str = ""


def texts_of(using: str, events: Mapping[int, tuple[Failure, int | None]], *, sees_payload: bool) -> dict[int, Texts]:
    """Return the texts of groups, each given with an event whose error stands for all, if there is one."""
    rows = _events(using, {event for _failure, event in events.values() if event is not None})
    masks = is_redacting() and sees_payload
    contents = excerpts(using, {row.message_id for row in rows.values()}) if masks else {}
    found = {}
    for number, (failure, event) in events.items():
        exception, place = (_shown(failure, name, sees_payload=sees_payload) for name in ("exception", "place"))
        row = None if event is None else rows.get(event)
        detail = ""
        if row is not None:
            shown = partial(error_text, of=contents.get(row.message_id), sees_payload=sees_payload)
            detail = _beyond(exception, detail_of(row, shown))
        if detail.startswith(exception):  # the first words of a text stand in for a class
            exception, detail = detail, ""
        found[number] = Texts(exception, "" if place in detail else dotted(place), detail)
    return found


def dotted(place: str) -> str:
    """Return a function in a file as Python names it, as a consumer is named; anything else as it is."""
    match = _IN_FILE.fullmatch(place)
    if match is None:
        return place
    module = match[1].replace("/", ".").removesuffix(".__init__")
    return f"{module}.{match[2]}"


def _events(using: str, ids: Collection[int]) -> dict[int, Any]:
    found: Any = MessageEvent.objects.using(using).filter(pk__in=ids).defer("detail")
    rows = {}
    for row in found.annotate(beginning=Left("detail", ERROR_READ)):
        row.detail = row.beginning
        rows[row.pk] = row
    return rows


def _beyond(exception: str, text: str) -> str:
    """Return the first line of an error without the class, which stands before it; nothing if it says no more."""
    line = next(iter(text.strip().splitlines()), "").removeprefix(f"{exception}: ")
    return "" if line in {exception, UNTOLD} else line


def _shown(row: Failure, name: str, *, sees_payload: bool) -> str:
    """Return class or place; if words of an error stand in for it, as this user may see them."""
    text = str(getattr(row, name))
    if not text or names_class(row.exception, row.place, name) or (name == "place" and _names_consumer(row)):
        return text
    return str(error_text(text, of=None, sees_payload=sees_payload))


def _names_consumer(row: Failure) -> bool:
    """Return whether the place is the consumer or a task of the row's queue, as this process knows them."""
    if not has_consumer(row.queue):
        return False
    consumer = registered([row.queue])[row.queue]
    if consumer.runner is None:
        return bool(consumer.name == row.place)
    from django_dbqueue.tasks.lookup import is_imported  # where a queue has tasks, there is django.tasks

    return is_imported(row.place)
