"""One event when a message dies, grouped as the console's failures are: by queue, class and place."""

from __future__ import annotations

import re
from typing import Any, Final

import sentry_sdk

from django_dbqueue.contrib.sentry.check_ins import check_in_of
from django_dbqueue.contrib.sentry.in_order import in_order
from django_dbqueue.failures.fingerprint import kind_of
from django_dbqueue.tasks.task_headers import task_named
from django_dbqueue.worker.logs import TASKS_LOGGERS

BEGUN_WITHIN: Final = 2.0
"""Seconds for which the end of a check-in waits for its beginning, which may still be on its way."""
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)


def report(queue: str, message_id: int, error: str, *, event: bool, check_in: bool, using: str | None) -> None:
    """Send the event, and the check-in's end if a schedule had sent the message."""
    from django_dbqueue.models import Message, MessageEvent
    from django_dbqueue.models.aliases import db_alias
    from django_dbqueue.statements.events_sql import DEADLY

    using = using or db_alias(Message)
    row = Message.objects.using(using).filter(pk=message_id).values_list("headers_text", "read_count").first()
    headers_text, reads = row or (None, None)
    if event:
        deaths = MessageEvent.objects.using(using).filter(message_id=message_id, kind__in=DEADLY).order_by("-pk")
        path = deaths.values_list("exception", flat=True).first()
        sentry_sdk.capture_event(event_of(queue, message_id, error, path, task=task_named(headers_text), reads=reads))
    if check_in and (found := check_in_of(headers_text)) is not None:
        in_order.flush(BEGUN_WITHIN)
        found.send("error")


def event_of(queue: str, message_id: int, error: str, path: str | None, *, task: str | None, reads: int | None) -> Any:
    """Return the event of a death; ``path`` is that of the class of what was raised, if it is known."""
    kind = kind_of(error, path)
    head = error.partition("\n")[0]
    frames = [
        {"filename": file, "abs_path": file, "lineno": int(line), "function": function, "in_app": True}
        for file, line, function in _FRAME.findall(error)
    ]
    exception: dict[str, Any] = {
        "type": kind.exception,
        "value": head.removeprefix(f"{kind.exception}: "),
        "mechanism": {"type": "django_dbqueue", "handled": False},
    }
    if frames:
        exception["stacktrace"] = {"frames": frames}
    return {
        "level": "error",
        "logger": "django_dbqueue.deaths",
        "exception": {"values": [exception]},
        "fingerprint": ["django_dbqueue", queue, kind.fingerprint],
        "transaction": task or queue,
        "tags": {"dbqueue.queue": queue, **({} if task is None else {"dbqueue.task": task})},
        "contexts": {"message": {"id": message_id, "queue": queue, "reads": reads, "place": kind.place}},
    }


def is_reported(event: Any) -> bool:
    """Return whether an event was made of a log line about a death: our own, or that of Django's tasks."""
    logger = event.get("logger")
    if logger == "django_dbqueue":
        return (event.get("extra") or {}).get("event") == "died"
    return logger in TASKS_LOGGERS and event.get("level") == "error"
