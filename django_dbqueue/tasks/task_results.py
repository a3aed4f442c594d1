"""A task's result, as its message, the record of its failures and the row of its return value tell it.

``n`` is READY (with errors, while a retry waits), ``run`` RUNNING, ``y`` SUCCESSFUL, dead and dropped FAILED. A worker
that was killed leaves no traceback, but its attempt counts. ``lifecycle/result_rows`` stores the value
with the ack.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import Error

from django_dbqueue import codecs
from django_dbqueue.exceptions import ResultForgotten, UndecodableMessage
from django_dbqueue.models import ArchivedMessage, Message, MessageEvent, Result, Worker
from django_dbqueue.models.aliases import db_alias
from django_dbqueue.models.archived_message import outcome_of
from django_dbqueue.statements.events_sql import ATTEMPTS, CANCELLED, RESULT_FORGOTTEN
from django_dbqueue.states.table import Stage
from django_dbqueue.tasks.compat import (
    AnyResult,
    AnyTask,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
)
from django_dbqueue.tasks.lookup import Unfindable, import_task
from django_dbqueue.tasks.task_errors import dropped, error_of
from django_dbqueue.tasks.task_headers import BACKEND, DEFAULT, TASK
from django_dbqueue.tasks.task_moments import as_django_shows
from django_dbqueue.typed_values import MAX_ID, typed_whole


class StoredResult(AnyResult):
    """A result whose time of enqueueing is read from the row when somebody asks for it: INSERT doesn't return it.

    Only the attribute asks. What tools do unasked, to show, compare or log a result, sends no query.
    """

    __slots__ = ("_enqueued_at",)
    _enqueued_at: Any

    def __post_init__(self) -> None:
        """Leave the arguments as they were decoded: Django's ``normalize_json`` refuses UUIDs, dates and the like."""

    @property
    def enqueued_at(self) -> datetime | None:
        """When it was enqueued, by the database's clock.

        None if that can't be known: the row was rolled back or is purged. None too where it can't be read now, in async
        code or in a broken transaction.
        """
        unread = self._enqueued_at
        if isinstance(unread, Message):
            try:
                object.__setattr__(self, "_enqueued_at", as_django_shows(_created_at(unread)))
            except (SynchronousOnlyOperation, Error):
                return None
        moment: datetime | None = self._enqueued_at
        return moment

    @enqueued_at.setter
    def enqueued_at(self, moment: Any) -> None:
        object.__setattr__(self, "_enqueued_at", moment)

    @property
    def return_value(self) -> Any:
        """What the task returned; ResultForgotten if that was kept as long as it was to be. ValueError if it failed."""
        value = super().return_value
        if value is FORGOTTEN:
            raise ResultForgotten(
                f"Task {self.task.module_path} (result {self.id}) returned a value, which was deleted when its "
                "keep_results was over."
            )
        return value

    def cancel(self, reason: str = "by its sender", *, by: str | None = None) -> None:
        """Cancel the task: FAILED, and interrupted if it runs. NotCancelled says of one that has ended, how.

        It joins the caller's transaction. ``by`` names the person. This object doesn't change: call ``refresh()``.
        """
        Message.objects.cancel(int(self.id), reason=reason, by=by, using=db_alias(Message))

    async def acancel(self, reason: str = "by its sender", *, by: str | None = None) -> None:
        """Run ``cancel`` from async code."""
        await sync_to_async(self.cancel)(reason, by=by)

    def __repr__(self) -> str:
        unread = isinstance(self._enqueued_at, Message)
        parts = (
            f"{each.name}={'<not read>' if unread and each.name == 'enqueued_at' else repr(getattr(self, each.name))}"
            for each in fields(TaskResult)
            if each.repr
        )
        return f"{type(self).__qualname__}({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        """Return whether both tell the same; two of one id were enqueued at one time."""
        if other.__class__ is not self.__class__:
            return NotImplemented
        names = (each.name for each in fields(TaskResult) if each.compare and each.name != "enqueued_at")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]


def _created_at(message: Message) -> datetime | None:
    is_there = "created_at" not in message.get_deferred_fields()
    row: Any = message if is_there else _row(str(message.pk), str(message._state.db))
    moment: datetime | None = None if row is None else row.created_at
    return moment


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
        last_attempted_at=as_django_shows(message.claimed_at),
        args=payload["args"],
        kwargs=payload["kwargs"],
        backend=task.backend,
        errors=[error_of(each) for each in before],
        worker_ids=[*(each.worker or "" for each in before), worker],
    )


def _first_start(attempts: list[MessageEvent], last: datetime | None) -> datetime | None:
    moments = (*(each.claimed_at for each in attempts), last)
    return as_django_shows(min((moment for moment in moments if moment is not None), default=None))


def result_by_id(result_id: str, alias: str, *, using: str | None = None) -> AnyResult:
    """Return a task's result by its id; TaskResultDoesNotExist if there is none of this backend."""
    using = using or db_alias(Message)
    row = _row(result_id, using)
    headers = {} if row is None else codecs.decode_headers(row.headers_text)
    if row is None or TASK not in headers or headers.get(BACKEND, DEFAULT) != alias:
        raise _missing(result_id, using)
    return result_of(row, _task_of(row, str(headers[TASK]), alias), alias, using)


def backend_of(message_id: int, using: str) -> str:
    """Return the alias of the backend that a message is a task of; TaskResultDoesNotExist if it is none."""
    row = _row(str(message_id), using)
    headers = {} if row is None else codecs.decode_headers(row.headers_text)
    if TASK not in headers:
        raise _missing(str(message_id), using)
    return str(headers.get(BACKEND, DEFAULT))


def _missing(result_id: object, using: str) -> TaskResultDoesNotExist:
    return TaskResultDoesNotExist(
        f"Database {using!r} has no result {result_id!r} of this backend: its message was rolled back or forgotten, is "
        "in another database or of another backend, or is no task."
    )


def _row(result_id: str, using: str) -> Any:
    number = typed_whole(result_id, 0, MAX_ID) if isinstance(result_id, str) else None
    if number is None:
        return None
    row = Message.objects.using(using).filter(pk=number).first()
    return row or ArchivedMessage.objects.using(using).filter(message_id=number).order_by("-pk").first()


def _task_of(row: Any, path: str, alias: str) -> AnyTask:
    try:
        task = import_task(path)
    except Unfindable as error:
        raise TaskResultDoesNotExist(f"{path}, the task of this result, can't be found here: {error}") from error
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
    workers = [each.worker or "" for each in attempts if each.worker or each.kind != CANCELLED]
    last = row.claimed_at
    if status in (TaskResultStatus.RUNNING, TaskResultStatus.SUCCESSFUL):
        workers.append(_worker(row, using))
    result = StoredResult(
        task=task,
        id=str(message_id),
        status=status,
        enqueued_at=as_django_shows(row.created_at),
        started_at=_first_start(attempts, last) if workers else None,
        finished_at=as_django_shows(row.finished_at),
        last_attempted_at=as_django_shows(last) if workers else None,
        args=args,
        kwargs=kwargs,
        backend=alias,
        errors=[*(error_of(each) for each in attempts), *dropped(row)],
        worker_ids=workers,
    )
    if status == TaskResultStatus.SUCCESSFUL:
        object.__setattr__(result, "_return_value", _value(message_id, using))
    return result


class _Forgotten(Enum):
    """Stands in a result for a value that is kept no more, and is not None."""

    FORGOTTEN = auto()


FORGOTTEN: Final = _Forgotten.FORGOTTEN


def _value(message_id: int, using: str) -> Any:
    kept = Result._default_manager.using(using).filter(pk=message_id).first()
    if kept is not None:
        return kept.value
    is_forgotten = MessageEvent.objects.using(using).filter(message_id=message_id, kind=RESULT_FORGOTTEN).exists()
    return FORGOTTEN if is_forgotten else None


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
    if outcome := outcome_of(row):
        return TaskResultStatus.SUCCESSFUL if outcome == "done" else TaskResultStatus.FAILED
    return TaskResultStatus.RUNNING if row.stage is Stage.CLAIMED else TaskResultStatus.READY


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
