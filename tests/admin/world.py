"""Rows in every table of the app, each of whose texts says what a test wants, as somebody may write them by SQL.

A model or a column that comes later is filled by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.db import connection, models
from django.db.models import BooleanField, CharField, DateTimeField, FloatField, IntegerField, TextField

from django_dbqueue.models import (
    ArchivedMessage,
    BulkOperation,
    Failure,
    Flow,
    FlowPart,
    Line,
    Message,
    MessageEvent,
    Queue,
    Schedule,
    Step,
    Ticket,
)
from django_dbqueue.models.fields import AsciiField, clock
from django_dbqueue.states.table import PARKED_AT

STATES: dict[str, dict[str, Any]] = {
    "dead": {"available_at": None},
    "running": {"status": "run", "claim_token": 7, "live": 1},
    "stuck": {"status": "run", "claim_token": 8, "live": 1, "available_at": timedelta(hours=-1)},
    "ready": {"available_at": timedelta(hours=-1), "live": 1},
    "delayed": {"live": 1},
    "waiting": {"live": 1, "available_at": PARKED_AT},
    "done": {"status": "y", "available_at": timedelta(hours=-1)},
}
"""What makes a message of each state, beside what every message has; spans are counted from now."""
GIVEN: dict[str, dict[str, Any]] = {
    "StreamClaim": {"ids": "[1]", "state": "open"},
    "Stream": {"on_expired": "give", "run": None},
    "QueueMinute": {"wait": "[]", "run": "[]"},
    "BulkOperation": {"verb": "requeue", "state": "running", "selection": '{"state": "dead"}'},
    "ArchivedMessage": {"outcome": "dead", "content_type": "json"},
    "MessageEvent": {"kind": "failed"},
    "Step": {"kind": "step", "content_type": "json", "body": "1"},
    "Worker": {"queues": "queue-1,queue-2"},
}
"""Columns that hold a word or a form of ours."""


def fill(texts: Sequence[str]) -> None:
    """Make a row of every model, a message, and an entry of the admin's log for each text.

    States take turns; of a single text there is a message of each. What is long holds all the texts.
    """
    now = clock("default")
    author = User.objects.order_by("pk").first()
    assert author is not None
    for index, text in enumerate(texts):
        for model in apps.get_app_config("django_dbqueue").get_models():
            if model is Message:
                continue
            if not model._meta.managed or model._meta.proxy:
                continue
            model._default_manager.create(**_values(model, text, index, now))
        for number, (name, options) in enumerate(STATES.items()):
            if index % len(STATES) == number or len(texts) == 1:
                _message(" ".join([text, *texts]), text, index, now, number, options)
                assert getattr(Message.objects, name)().exists(), name
        queue = Queue.objects.order_by("created_at", "name").last()
        entry = storable(text, 200)
        LogEntry.objects.log_actions(author.pk, [queue], CHANGE, f"Paused: {entry}", single_object=True)
    _join()


def _join() -> None:
    """Let what names a row by its number name one that is there, as it does in every world."""
    messages = list(Message.objects.order_by("pk").values_list("pk", flat=True))
    failures = list(Failure.objects.order_by("pk").values_list("pk", flat=True))
    flows = list(Flow.objects.order_by("pk").values_list("pk", flat=True))
    for model, column, pks in (
        (MessageEvent, "failure_id", failures),
        (MessageEvent, "message_id", messages),
        (ArchivedMessage, "message_id", messages),
        (BulkOperation, "message_id", messages),
        (Schedule, "last_message_id", messages),
        (Step, "message_id", messages),
        (Line, "message_id", messages),
        (Ticket, "message_id", messages),
        (FlowPart, "flow", flows),
        (Message, "flow", flows),
    ):
        for position, row in enumerate(model._default_manager.order_by("pk")):
            model._default_manager.filter(pk=row.pk).update(**{column: pks[position % len(pks)]})


def _message(all_texts: str, text: str, index: int, now: datetime, number: int, options: dict[str, Any]) -> None:
    values = _values(Message, text, index, now) | _content(all_texts, index) | {"error": storable(all_texts, 16_384)}
    values |= {"status": "n", "live": None, "key_hash": f"{index}-{number}"}
    for name, value in options.items():
        values[name] = now + value if isinstance(value, timedelta) else value
    Message.objects.bulk_create([Message(**values)])


def _values(model: type[models.Model], text: str, index: int, now: datetime) -> dict[str, Any]:
    values = {field.attname: _value(field, text, index, now) for field in _fields(model)}
    if model in (Message, ArchivedMessage):
        values |= _content(text, index)
    if model is Message:  # enqueue and routines let no other names in
        values |= {"worker_id": index + 1, "queue": f"queue-{index % 20}"}
    return values | GIVEN.get(model.__name__, {})


def _fields(model: type[models.Model]) -> Iterator[Any]:
    for field in model._meta.concrete_fields:
        if not (field.generated or isinstance(field, models.AutoField | models.BigAutoField)):
            yield field


def _content(text: str, index: int) -> dict[str, Any]:
    """A message's content says it as value and as key, and as a whole."""
    shapes = [{"text": text, text[:300]: [text]}, text, [[text]], {"args": [text], "kwargs": {"a": text}}]
    body = json.dumps(shapes[index % len(shapes)])
    return {"body": body, "content_type": "json", "headers_text": json.dumps({"trace": text, text[:300]: 1})}


def _value(field: Any, text: str, index: int, now: datetime) -> Any:
    if isinstance(field, BooleanField):
        return True
    if isinstance(field, DateTimeField):
        beats = field.attname == "beat_at" and index == 0  # one does, for however long somebody looks
        is_to_come = beats or field.attname in ("available_at", "paused_until")
        return now + timedelta(hours=1) if is_to_come else now - timedelta(minutes=index)
    if isinstance(field, FloatField):
        return 1.5
    if isinstance(field, IntegerField):
        return index + 1
    if isinstance(field, CharField | TextField):
        unique = field.primary_key or field.unique
        fitting = storable(text, field.max_length, ascii_only=isinstance(field, AsciiField))
        return f"{index:02}{fitting}"[: field.max_length] if unique or field.max_length == 64 else fitting
    raise AssertionError(f"say what a {type(field).__name__} is filled with")


def storable(text: str, length: int | None, *, ascii_only: bool = False) -> str:
    """Return what of a text the column can hold: no database stores lone surrogates, PostgreSQL no NUL."""
    text = text.encode("utf-8", "replace").decode()
    if connection.vendor == "postgresql":
        text = text.replace("\0", "?")
    if ascii_only:
        text = text.encode("ascii", "replace").decode()
    return text[:length]
