"""A task's result, as its message, the record of its failures and the row of its return value tell it.

``n`` is READY (with errors, while a retry waits), ``run`` RUNNING, ``y`` SUCCESSFUL, dead and dropped FAILED. A worker
that was killed leaves no traceback, but its attempt counts.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from django.utils.module_loading import import_string

from django_dbqueue import codecs
from django_dbqueue.consumers import Reject, Retry
from django_dbqueue.databases.events_sql import ATTEMPTS, INTERRUPTED, REJECTED, RESCUED
from django_dbqueue.exceptions import UndecodableMessage, WorkerLost
from django_dbqueue.models import ArchivedMessage, Message, MessageEvent, Result, Worker
from django_dbqueue.models.aliases import db_alias
from django_dbqueue.statuses import NEW, RUNNING
from django_dbqueue.tasks.compat import (
    AnyResult,
    AnyTask,
    Task,
    TaskError,
    TaskResultDoesNotExist,
    TaskResultStatus,
)
from django_dbqueue.tasks.task_headers import BACKEND, DEFAULT, TASK

MAX_ID: Final = 2**63 - 1
_CLASS: Final = re.compile(r"([A-Za-z_][\w.]*(?:<locals>\.[\w.]+)*)(?=:|$)", re.MULTILINE)
_TRACE: Final = re.compile(r"\n\n(?=Traceback \(most recent call last\)|  \+ Exception Group Traceback)")


class StoredResult(AnyResult):
    """A result whose time of enqueueing is read from the row when somebody asks for it: INSERT doesn't return it."""

    __slots__ = ("_enqueued_at",)
    _enqueued_at: Any

    @property
    def enqueued_at(self) -> datetime | None:
        """When it was enqueued, by the database's clock."""
        if isinstance(self._enqueued_at, Message):
            object.__setattr__(self, "_enqueued_at", self._enqueued_at.created_at)
        moment: datetime | None = self._enqueued_at
        return moment

    @enqueued_at.setter
    def enqueued_at(self, moment: Any) -> None:
        object.__setattr__(self, "_enqueued_at", moment)


def enqueued(task: AnyTask, message: Message, alias: str) -> AnyResult:
    """Return the result of a task that was just stored."""
    payload = message.payload
    return StoredResult(
        task=task,
        id=str(message.pk),
        status=TaskResultStatus.READY,
        enqueued_at=message,  # type: ignore[arg-type]
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=payload["args"],
        kwargs=payload["kwargs"],
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def running(task: AnyTask, message: Message, worker: str, attempt: int) -> AnyResult:
    """Return the result of a task that this process is about to run."""
    using = str(message._state.db)
    before = _attempts(message.pk, using) if attempt > 1 else []
    payload = message.payload
    return StoredResult(
        task=task,
        id=str(message.pk),
        status=TaskResultStatus.RUNNING,
        enqueued_at=message,  # type: ignore[arg-type]
        started_at=_first_start(before, message.claimed_at),
        finished_at=None,
        last_attempted_at=message.claimed_at,
        args=payload["args"],
        kwargs=payload["kwargs"],
        backend=task.backend,
        errors=[_error(each) for each in before],
        worker_ids=[*(each.worker or "" for each in before), worker],
    )


def _first_start(attempts: list[MessageEvent], last: datetime | None) -> datetime | None:
    moments = (*(each.claimed_at for each in attempts), last)
    return min((moment for moment in moments if moment is not None), default=None)


def result_by_id(result_id: str, alias: str) -> AnyResult:
    """Return a task's result by its id; TaskResultDoesNotExist if there is none of this backend."""
    using = db_alias(Message)
    row = _row(result_id, using)
    headers = {} if row is None else codecs.decode_headers(row.headers_text)
    if row is None or TASK not in headers or headers.get(BACKEND, DEFAULT) != alias:
        raise TaskResultDoesNotExist(result_id)
    return result_of(row, _task_of(row, str(headers[TASK]), alias), alias, using)


def _row(result_id: str, using: str) -> Any:
    if not (isinstance(result_id, str) and result_id.isascii() and result_id.isdigit() and int(result_id) <= MAX_ID):
        return None
    number = int(result_id)
    row = Message.objects.using(using).filter(pk=number).first()
    return row or ArchivedMessage.objects.using(using).filter(message_id=number).order_by("-pk").first()


def _task_of(row: Any, path: str, alias: str) -> AnyTask:
    try:
        task = import_string(path)
    except ImportError as error:
        raise TaskResultDoesNotExist(f"{path}, the task of this result, can't be imported here: {error}") from error
    if not isinstance(task, Task):
        raise TaskResultDoesNotExist(f"{path}, the task of this result, is no task here.")
    return sent_as(task, row.queue, row.priority, alias)


def sent_as(task: AnyTask, queue: str, priority: int, alias: str) -> AnyTask:
    """Return a task with what it was enqueued with, by ``using()`` or its defaults of then."""
    if (task.queue_name, task.priority, task.backend) == (queue, priority, alias):
        return task
    return task.using(queue_name=queue, priority=priority, backend=alias)


def result_of(row: Any, task: AnyTask, alias: str, using: str) -> AnyResult:
    """Return the result that the row of a message, or of its history, amounts to."""
    message_id = row.pk if isinstance(row, Message) else row.message_id
    status, (args, kwargs) = _status(row), _readable_arguments(row)
    attempts = _attempts(message_id, using) if row.read_count or row.error or row.crashes else []
    workers = [each.worker or "" for each in attempts]
    last = row.claimed_at
    if status in (TaskResultStatus.RUNNING, TaskResultStatus.SUCCESSFUL):
        workers.append(_worker(row, using))
    result = StoredResult(
        task=task,
        id=str(message_id),
        status=status,
        enqueued_at=row.created_at,
        started_at=_first_start(attempts, last) if workers else None,
        finished_at=row.finished_at,
        last_attempted_at=last if workers else None,
        args=args,
        kwargs=kwargs,
        backend=alias,
        errors=[_error(each) for each in attempts],
        worker_ids=workers,
    )
    if status == TaskResultStatus.SUCCESSFUL:
        kept = Result._default_manager.using(using).filter(pk=message_id).first()
        object.__setattr__(result, "_return_value", None if kept is None else kept.value)
    return result


def arguments_of(payload: object) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a task by position and by name; UndecodableMessage if the payload is of another kind."""
    if isinstance(payload, dict):
        args, kwargs = payload.get("args"), payload.get("kwargs")
        if isinstance(args, list) and isinstance(kwargs, dict):
            return args, kwargs
    raise UndecodableMessage(
        'The payload of a task is {"args": […], "kwargs": {…}}, but not that of this message. What enqueues a task '
        "otherwise than by the task itself must write it so."
    )


def _readable_arguments(row: Any) -> tuple[list[Any], dict[str, Any]]:
    try:
        return arguments_of(row.payload)
    except UndecodableMessage:  # it was rejected, and its error says so
        return [], {}


def _status(row: Any) -> TaskResultStatus:
    if isinstance(row, ArchivedMessage):
        return TaskResultStatus.SUCCESSFUL if row.outcome == "done" else TaskResultStatus.FAILED
    if row.status == RUNNING:
        return TaskResultStatus.RUNNING
    if row.status == NEW:
        return TaskResultStatus.FAILED if row.is_dead else TaskResultStatus.READY
    return TaskResultStatus.SUCCESSFUL if row.error is None else TaskResultStatus.FAILED


def _attempts(message_id: int, using: str) -> list[MessageEvent]:
    rows: Iterable[MessageEvent] = MessageEvent.objects.using(using).filter(message_id=message_id, kind__in=ATTEMPTS)
    return sorted(rows, key=lambda row: row.pk)


def _worker(row: Any, using: str) -> str:
    """Return who has it, or did it: as in the records if the worker is still there, else by its number."""
    number = getattr(row, "worker_id", None)
    if number is None:
        return ""
    worker = Worker.objects.using(using).filter(pk=number).first()
    return str(number) if worker is None else str(worker)


def _error(event: MessageEvent) -> TaskError:
    text = event.detail or ""
    found = _TRACE.search(text)
    trace = text[found.end() :] if found else text
    path = _REJECT if event.kind == REJECTED and not found and not _OWN_WORDS.match(text) else None
    return TaskError(exception_class_path=path or _class_path(text, event.kind), traceback=f"{trace}\n")


_REJECT: Final = f"{Reject.__module__}.{Reject.__qualname__}"
_OWN_WORDS: Final = re.compile(r"TypeError: |django_dbqueue\.")
"""How an error begins that rejects a message without a traceback. Any other text is the reason of a ``Reject``."""
_OURS: Final = {
    "TimedOut": "builtins.TimeoutError",
    "Retry": f"{Retry.__module__}.{Retry.__qualname__}",
    "Rejected": _REJECT,
    "UndecodableMessage": f"{UndecodableMessage.__module__}.{UndecodableMessage.__qualname__}",
}
_LOST: Final = f"{WorkerLost.__module__}.{WorkerLost.__qualname__}"


def _class_path(text: str, kind: str) -> str:
    """Return the dotted path of the class that a recorded error names."""
    found = _CLASS.match(text)
    name = found[1] if found else ""
    if kind in (RESCUED, INTERRUPTED) or not name:
        return _LOST
    if "." in name:
        return name
    if isinstance(getattr(builtins, name, None), type):
        return f"builtins.{name}"
    return _OURS.get(name, _LOST)
