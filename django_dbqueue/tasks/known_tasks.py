"""The task that a message names, and what holds for it: found once for all messages that name it alike."""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from django.core.signals import setting_changed
from django.dispatch import receiver

from django_dbqueue import codecs, conf, hooks
from django_dbqueue.exceptions import UndecodableMessage
from django_dbqueue.models import Message
from django_dbqueue.schedules.declarations import NAME_HEADER
from django_dbqueue.tasks.compat import AnyTask
from django_dbqueue.tasks.lookup import Unfindable, find_task
from django_dbqueue.tasks.options import TaskOptions, options_of
from django_dbqueue.tasks.task_headers import BACKEND, DEFAULT, EXPIRES, TASK, expiry_in
from django_dbqueue.tasks.task_results import sent_as
from django_dbqueue.value_types import TYPES


class UnknownTask(Exception):
    """The message names a task that can't be imported here, or something that is no task."""


class Known(NamedTuple):
    """A task that was found, and what holds for it."""

    task: AnyTask
    expires: datetime | None
    """When it is too late to run it."""
    options: TaskOptions
    sender: type
    most_bytes: int
    """What its result may take."""


def known_task(message: Message) -> Known:
    """Return the task that a message names; UnknownTask if there is none here."""
    return _known(_naming(message.headers_text), message.queue, message.priority)


def _naming(headers_text: str | None) -> str | None:
    """Return the headers without what differs from message to message: its trace, its types, and its due time."""
    if headers_text is None or not (
        hooks.active is not None or any(name in headers_text for name in ("trace", NAME_HEADER, TYPES))
    ):
        return headers_text
    headers = codecs.decode_headers(headers_text)
    return json.dumps({name: headers[name] for name in (TASK, BACKEND, EXPIRES) if name in headers})


@lru_cache(maxsize=10_000)
def _known(headers_text: str | None, queue: str, priority: int) -> Known:
    headers = codecs.decode_headers(headers_text)
    path, alias = headers.get(TASK), headers.get(BACKEND, DEFAULT)
    if not isinstance(path, str):
        raise UnknownTask(f"It has no header {TASK!r}: it was not enqueued by @task, and its queue has no consumer.")
    if not isinstance(alias, str):
        raise UndecodableMessage(f"Its header {BACKEND!r} must be the alias of a backend, not {alias!r:.200}.")
    try:
        task, backend = find_task(path, alias)
    except Unfindable as error:
        raise UnknownTask(f"The task {path} can't be found here: {error}.") from error
    return Known(
        sent_as(task, queue, priority, alias),
        expiry_in(headers),
        options_of(task, backend.options),
        type(backend),
        conf.get("MAX_PAYLOAD_BYTES"),
    )


@receiver(setting_changed, dispatch_uid="django_dbqueue.tasks.known_tasks")
def _forget(*, setting: str, **_: object) -> None:
    if setting in ("TASKS", conf.NAME):
        _known.cache_clear()
