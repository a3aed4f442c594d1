"""The backend: ``enqueue`` stores a message in the caller's transaction, ``get_result`` reads what became of it."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.apps import apps

from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.tasks import compat
from django_dbqueue.tasks.compat import BaseTaskBackend, InvalidTask, Task
from django_dbqueue.tasks.envelopes import envelope_of
from django_dbqueue.tasks.options import check_own_options, options_of
from django_dbqueue.tasks.task import DBQueueTask
from django_dbqueue.tasks.task_functions import check_function

if TYPE_CHECKING:
    from django.core.checks import CheckMessage

    from django_dbqueue.codecs import Json
    from django_dbqueue.envelope import Envelope
    from django_dbqueue.lifecycle.enqueue_many import EnqueueReport
    from django_dbqueue.models import Message
    from django_dbqueue.tasks.compat import AnyResult, AnyTask

Call = tuple["AnyTask", Sequence[Any], Mapping[str, Any]]
"""A task, its arguments by position and by name."""


class DBQueueBackend(BaseTaskBackend):
    """Tasks as messages of the queue: leases, retries, results in the same commit, and an operator's console.

    ``OPTIONS``: see ``TaskOptions``.
    """

    task_class = DBQueueTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
    supports_call_options = True  # expires, group, once and others: no other backend has them

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        if apps.models_ready:
            import_module("django_dbqueue.models")  # which refuses, in a sentence, a project without the app
        super().__init__(alias, params)

    def validate_task(self, task: AnyTask) -> None:
        """Raise InvalidTask for what can't be enqueued here."""
        if not isinstance(task.priority, int | float):  # Django compares it first
            raise InvalidTask(f"priority must be a whole number, not {task.priority!r}.")
        if task.run_after is not None and not isinstance(task.run_after, datetime):
            raise InvalidTask(f"run_after, or eta, must be a datetime, not {task.run_after!r}.")
        if self.queues and task.queue_name not in self.queues:
            raise InvalidTask(  # Django's own sentence, and what to do
                f"Queue {task.queue_name!r} is not valid for backend. Add it to "
                f"TASKS[{self.alias!r}]['QUEUES'], which has {', '.join(sorted(self.queues))}."
            )
        super().validate_task(task)
        if isinstance(task.priority, bool) or not isinstance(task.priority, int):
            raise InvalidTask(f"priority must be a whole number, not {task.priority!r}.")
        check_function(task)
        check_own_options(task)

    def enqueue(  # type: ignore[override]
        self,
        task: AnyTask,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        expires: datetime | None = None,
        group: str | None = None,
        once: str | None = None,
        once_for: float | timedelta | None = None,
        headers: Mapping[str, Json] | None = None,
        using: str | None = None,
    ) -> AnyResult:
        """Store the task in the caller's transaction and return its result, READY; or that of the first one ``once``.

        A worker that claims it after ``expires`` (aware) drops it. ``headers`` are added to the task's; ``using`` is
        the alias of a database. Raises InvalidTask, and TypeError or ValueError for arguments that JSON can't express;
        then nothing is written. If the first task with the token ``once`` is gone from the history too, it raises
        TaskResultDoesNotExist.
        """
        from django_dbqueue.tasks.task_results import enqueued

        if call := getattr(task, "call_options", None):  # not by self: a subclass has seen the call, and may take none
            return DBQueueBackend.enqueue(self, replace(task, call_options=None), args, kwargs, **call)  # type: ignore[call-arg]
        self.validate_task(task)
        options = options_of(task, self.options)
        envelope = envelope_of(task, args, kwargs, options, self.alias, expires=expires, group=group)
        envelope = replace(
            envelope, headers={**(envelope.headers or {}), **(headers or {})}, once=once, once_for=once_for
        )
        message = _stored(task, envelope, using)
        if message.outcome == "ignored":
            return self.get_result(str(message.pk))
        result = enqueued(task, message, self.alias)
        compat.signal("task_enqueued").send(type(self), task_result=result)
        return result

    async def aenqueue(  # type: ignore[override]
        self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any], **options: Any
    ) -> AnyResult:
        """Run ``enqueue`` from async code."""

        def enqueue() -> AnyResult:
            result = self.enqueue(task, args, kwargs, **options)
            _ = result.enqueued_at  # read now: async code can't
            return result

        return await sync_to_async(enqueue, thread_sensitive=True)()

    def enqueue_many(self, calls: Iterable[Call]) -> int:
        """Store many tasks, each with its arguments, in one transaction, all or nothing; return how many.

        It is as fast as ``Message.objects.enqueue_many``: no results are built, and ``task_enqueued`` is not sent.
        """
        from django.db import transaction

        from django_dbqueue.models import Message
        from django_dbqueue.models.aliases import db_alias

        by_queue: dict[str, list[Any]] = {}
        checked: dict[int, AnyTask] = {}  # by id, since an option may have no hash
        for call in calls:
            task, args, kwargs = _parts_of(call)
            if id(task) not in checked:
                self.validate_task(task)
                checked[id(task)] = task
            envelope = envelope_of(task, args, kwargs, options_of(task, self.options), self.alias)
            by_queue.setdefault(task.queue_name, []).append(envelope)
        count = 0
        with transaction.atomic(using=db_alias(Message)):
            for queue, envelopes in by_queue.items():
                try:
                    report: EnqueueReport = Message.objects.enqueue_many(envelopes, queue=queue)
                except InvalidMessage as error:
                    raise InvalidTask(str(error)) from error
                count += report.total
        return count

    async def aenqueue_many(self, calls: Iterable[Call]) -> int:
        """Run ``enqueue_many`` from async code."""
        return await sync_to_async(self.enqueue_many)(calls)

    def get_result(self, result_id: str) -> AnyResult:
        """Return the result by its id; TaskResultDoesNotExist if there is none, or no more."""
        from django_dbqueue.tasks.task_results import result_by_id

        return result_by_id(result_id, self.alias)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Return what is wrong with this backend's settings."""
        from django_dbqueue.tasks.backend_checks import check_backend

        return [*super().check(**kwargs), *check_backend(self)]


def _stored(task: AnyTask, envelope: Envelope, using: str | None) -> Message:
    """Store a task's message; InvalidTask for what no message can have."""
    from django_dbqueue.models import Message

    try:
        return Message.objects.enqueue(
            envelope.payload,
            queue=task.queue_name,
            at=envelope.at,
            priority=envelope.priority,
            max_reads=envelope.max_reads,
            lease=envelope.lease,
            headers=envelope.headers,
            group=envelope.group,
            once=envelope.once,
            once_for=envelope.once_for,
            using=using,
        )
    except InvalidMessage as error:
        raise InvalidTask(f"{task.module_path}: {error}") from error


def _parts_of(call: object) -> Call:
    if not (isinstance(call, tuple | list) and len(call) == 3 and isinstance(call[0], Task)):
        raise InvalidTask(f"enqueue_many() takes triples of a task, its args and its kwargs, not {reprlib.repr(call)}.")
    return call[0], call[1], call[2]
