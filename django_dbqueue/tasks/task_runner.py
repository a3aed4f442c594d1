"""How a worker runs the tasks of a queue: it finds the task, calls it, and decides what becomes of the message.

A task whose path can't be imported here is released for a while: a newer release may have enqueued it, and its workers
are on their way. After that it fails as any other.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import socket
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.dispatch import receiver
from django.utils import timezone

from django_dbqueue import codecs, conf, hooks
from django_dbqueue.consumers import Retry
from django_dbqueue.databases.statements import Kept
from django_dbqueue.envelope import check_seconds
from django_dbqueue.exceptions import Suspended, UndecodableMessage
from django_dbqueue.lifecycle.django_session import session_of
from django_dbqueue.lifecycle.error_texts import error_text
from django_dbqueue.lifecycle.result_rows import keep
from django_dbqueue.tasks import compat
from django_dbqueue.tasks.compat import (
    AnyResult,
    AnyTask,
    TaskError,
    TaskResultStatus,
    normalize_json,
)
from django_dbqueue.tasks.lookup import NotATask, find_task
from django_dbqueue.tasks.options import TaskOptions, options_of
from django_dbqueue.tasks.step_context import StepContext
from django_dbqueue.tasks.task_headers import BACKEND, DEFAULT, EXPIRES, TASK, expiry_in
from django_dbqueue.tasks.task_results import arguments_of, running, sent_as
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import ACK, Verdict, decided, in_transaction
from django_dbqueue.worker.execution import backoff as usual_backoff

logger = logging.getLogger("django_dbqueue.tasks")
_log = logging.getLogger(compat.HOME)
"""Django's own log of tasks."""

UNKNOWN_FOR: Final = timedelta(hours=1)
"""How long after it was due a task that can't be imported is released, uncharged."""
UNKNOWN_PAUSE: Final = 10.0
"""Seconds until it is tried again."""


class UnknownTask(Exception):
    """The message names a task that can't be imported here, or something that is no task."""


class InvalidResult(Exception):
    """The task returned what can't be kept: it would return it again, so it isn't retried. Recorded as a TypeError."""


class Known(NamedTuple):
    """A task that was found, and what holds for it."""

    task: AnyTask
    function: Callable[..., object]
    """Its function, to be called without an event loop."""
    expires: datetime | None
    """When it is too late to run it."""
    options: TaskOptions
    sender: type
    most_bytes: int
    """What its result may take."""


class Run:
    """One attempt. What its signals and its context show is built only if somebody asks for it."""

    __slots__ = ("_error", "_result", "args", "delivery", "known", "kwargs", "value")

    def __init__(self, delivery: Delivery, known: Known) -> None:
        self.delivery = delivery
        self.known = known
        self.args, self.kwargs = arguments_of(delivery.message.payload)
        self.value: Any = None
        """What the task returned, in JSON's types."""
        self._error: BaseException | None = None
        self._result: AnyResult | None = None

    @property
    def result(self) -> AnyResult:
        """The result as it is now: RUNNING, with the errors of the attempts before, and of this one if it failed."""
        if self._result is None:
            self._result = running(self.known.task, self.delivery.message, _name(os.getpid()), self.delivery.reads)
        if self._error is not None:
            self._result.errors.append(_told(self._error))
            self._error = None
        return self._result

    def fail(self, error: BaseException) -> None:
        """Note what ended the attempt."""
        self.value, self._error = None, error

    def call(self) -> object:
        """Call the task's function."""
        known = self.known
        if known.task.takes_context:
            context = StepContext(task_result=self.result, message=self.delivery.message)
            return known.function(context, *self.args, **self.kwargs)
        return known.function(*self.args, **self.kwargs)

    def finish(self, status: TaskResultStatus) -> None:
        """Tell those who listen how it ended."""
        if _is_heard("task_finished", logging.ERROR if status == TaskResultStatus.FAILED else logging.INFO):
            object.__setattr__(self.result, "finished_at", timezone.now())
            object.__setattr__(self.result, "status", status)
            object.__setattr__(self.result, "_return_value", self.value)
            self._send("task_finished")

    def start(self) -> None:
        """Tell those who listen that it begins."""
        if _is_heard("task_started", logging.INFO):
            self._send("task_started")

    def _send(self, name: str) -> None:
        """Send a signal; what a receiver raises is logged, and ends no task."""
        compat.signal(name).send_robust(self.known.sender, task_result=self.result)


def _is_heard(name: str, level: int) -> bool:
    """Return whether a signal has a receiver besides Django's own, which only logs, or whether that log is on.

    With Django's default logging it is on, and makes a record of each start and end that nobody sees in production.
    """
    return len(compat.signal(name).receivers) > 1 or _log.isEnabledFor(level)


class TaskRunner:
    """A runner of the tasks of a queue, shared by the threads of a worker."""

    def __init__(self) -> None:
        self._runs: dict[int, Run] = {}
        """What is being run, by the id of its message, for ``judge``."""

    def run(self, delivery: Delivery) -> Verdict:
        """Run the task and return the verdict; raise what ends it otherwise."""
        message = delivery.message
        try:
            known = _known(_naming(message.headers_text), message.queue, message.priority)
        except UnknownTask as error:
            if datetime.now(UTC) - message.due_at >= UNKNOWN_FOR:
                raise
            logger.warning("message %s: %s Released for %g s.", message.pk, error, UNKNOWN_PAUSE)
            return Verdict("release", UNKNOWN_PAUSE, str(error))
        if known.expires is not None and message.claimed_at > known.expires:
            return Verdict("drop", error=f"Expired: it was not to be run after {known.expires.isoformat()}.")
        run = self._runs[delivery.claim.id] = Run(delivery, known)
        run.start()
        verdict = _in_one_commit(run) if known.options.transactional else _plain(run)
        del self._runs[delivery.claim.id]
        run.finish(TaskResultStatus.SUCCESSFUL)
        return verdict

    def judge(self, delivery: Delivery, error: BaseException) -> Verdict:
        """Return the verdict that follows from what ``run`` raised."""
        run = self._runs.pop(delivery.claim.id, None)
        if isinstance(error, Suspended):
            return decided(delivery, error)
        if isinstance(error, InvalidResult):
            error = TypeError(str(error))
            verdict = Verdict("reject", error=error_text(error) or "")
        else:
            verdict = decided(delivery, error)
        verdict = verdict._replace(keeps_trace=True)
        if run is None:
            return verdict
        run.fail(error)
        try:
            if verdict.verb == "reject" or delivery.is_last:
                run.finish(TaskResultStatus.FAILED)
            elif not isinstance(error, Retry):
                return _delayed(verdict, run, error)
        except Exception:  # of its backoff, or of the database: what the task itself raised is what counts
            logger.exception("message %s: %s failed, and then this", delivery.message.pk, run.known.task.module_path)
        return verdict


def _naming(headers_text: str | None) -> str | None:
    """Return the headers without what differs from message to message: the trace in which each was sent."""
    if headers_text is None or (hooks.active is None and "trace" not in headers_text):
        return headers_text
    headers = codecs.decode_headers(headers_text)
    return json.dumps({name: headers[name] for name in (TASK, BACKEND, EXPIRES) if name in headers})


@lru_cache(maxsize=10_000)
def _known(headers_text: str | None, queue: str, priority: int) -> Known:
    """Return the task that a message's headers name; UnknownTask if there is none here."""
    headers = codecs.decode_headers(headers_text)
    path, alias = headers.get(TASK), headers.get(BACKEND, DEFAULT)
    if not isinstance(path, str):
        raise UnknownTask(f"It has no header {TASK!r}: it was not enqueued by @task, and its queue has no consumer.")
    if not isinstance(alias, str):
        raise UndecodableMessage(f"Its header {BACKEND!r} must be the alias of a backend, not {alias!r:.200}.")
    try:
        task, backend = find_task(path, alias)
    except (ImportError, ImproperlyConfigured, NotATask) as error:
        raise UnknownTask(f"The task {path} can't be found here: {error}.") from error
    return Known(
        sent_as(task, queue, priority, alias),
        async_to_sync(task.func) if inspect.iscoroutinefunction(task.func) else task.func,
        expiry_in(headers),
        options_of(task, backend.options),
        type(backend),
        conf.get("MAX_PAYLOAD_BYTES"),
    )


@receiver(setting_changed, dispatch_uid="django_dbqueue.tasks.task_runner")
def _forget(*, setting: str, **_: object) -> None:
    if setting in ("TASKS", conf.NAME):
        _known.cache_clear()


@cache
def _name(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}"


def _plain(run: Run) -> Verdict:
    kept = _kept(run, run.call())
    return ACK if kept is None else Verdict("ack", result=kept)


def _in_one_commit(run: Run) -> Verdict:
    """Make the body's rows, the result and the ack one commit; the fenced ack is its last statement."""
    message = run.delivery.message

    def work() -> None:
        kept = _kept(run, run.call())
        if kept is not None:
            keep(session_of(message._state.db), {message.pk: kept}, {message.pk})

    return in_transaction(run.delivery, work)


def _kept(run: Run, value: object) -> Kept | None:
    """Return what is kept of a value, which the result then shows; InvalidResult if JSON can't express it."""
    if value is None:
        return None
    try:
        run.value = normalize_json(value)
        body, content_type = codecs.encode(run.value, max_bytes=run.known.most_bytes)
    except (TypeError, ValueError, RecursionError) as error:
        path = run.known.task.module_path
        raise InvalidResult(f"{path} returned what can't be kept as a result: {error}") from error
    seconds = run.known.options.keep_results
    if not seconds or (run.delivery.options.on_ack == conf.DELETE and run.delivery.flow is None):
        return None
    return Kept(body, content_type, seconds, run.delivery.flow)


def _delayed(verdict: Verdict, run: Run, error: BaseException) -> Verdict:
    """Return a retry's verdict with the delay that the task asks for."""
    said, usual = run.known.options.backoff, run.delivery.options
    if said is None:
        return verdict
    if callable(said):
        return verdict._replace(delay=check_seconds("backoff", said(error, run.result)))
    options = replace(usual, backoff=float(said), backoff_max=max(said, usual.backoff_max))
    return verdict._replace(delay=usual_backoff(options, run.delivery.reads))


def _told(error: BaseException) -> TaskError:
    kind = type(error)
    return TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
        traceback="".join(traceback.format_exception(error)),
    )
