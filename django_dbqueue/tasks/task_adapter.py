"""How a worker runs the tasks of a queue: it finds the task, calls it, and decides what becomes of the message.

A task whose path can't be imported here is released for a while: a newer release may have enqueued it, and its workers
are on their way. After that it fails as any other.
"""

from __future__ import annotations

import inspect
import logging
import os
import socket
import traceback
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Final

from django_dbqueue import codecs, conf
from django_dbqueue.consumers import Retry
from django_dbqueue.consumers.unrun import unrun_text
from django_dbqueue.databases.statement import Kept
from django_dbqueue.envelope import check_seconds
from django_dbqueue.exceptions import Suspended
from django_dbqueue.failures.error_texts import class_path, error_text
from django_dbqueue.lifecycle.result_rows import keep
from django_dbqueue.models import Message
from django_dbqueue.tasks.compat import AnyResult, TaskError, TaskResultStatus
from django_dbqueue.tasks.finished_signal import is_heard, send, send_end
from django_dbqueue.tasks.json_values import in_json
from django_dbqueue.tasks.known_tasks import Known, UnknownTask, known_task
from django_dbqueue.tasks.step_context import StepContext
from django_dbqueue.tasks.task_headers import EXPIRED, task_named
from django_dbqueue.tasks.task_moments import as_django_shows
from django_dbqueue.tasks.task_results import arguments_of, running
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import ACK, Verdict, decided, in_transaction
from django_dbqueue.worker.lent_threads import in_own_loop
from django_dbqueue.worker.logs import guard

logger = logging.getLogger("django_dbqueue.tasks")
guard(logger)  # the worker guards those that are there when it starts, and this module is imported later

UNKNOWN_FOR: Final = timedelta(hours=1)
"""How long after it was due a task that can't be imported is released, uncharged."""
UNKNOWN_PAUSE: Final = 10.0
"""Seconds until it is tried again."""


class InvalidResult(Exception):
    """The task returned what can't be kept: it would return it again, so it isn't retried. Recorded as a TypeError."""


class Run:
    """One attempt. What its signals and its context show is built only if somebody asks for it."""

    __slots__ = ("_error", "_result", "args", "delivery", "has_returned", "known", "kwargs", "value")

    def __init__(self, delivery: Delivery, known: Known) -> None:
        self.delivery = delivery
        self.known = known
        self.args, self.kwargs = arguments_of(delivery.message.payload)
        self.value: Any = None
        """What the task returned, in JSON's types."""
        self.has_returned = False
        self._error: BaseException | None = None
        self._result: AnyResult | None = None

    @property
    def result(self) -> AnyResult:
        """The result as it is now: RUNNING, with the errors of the attempts before, and of this one if it failed."""
        if self._result is None:
            self._result = running(self.known.task, self.delivery.message, _name(os.getpid()), self.delivery.reads)
        if self._error is not None:
            self._result.errors.append(_task_error(self._error))
            self._error = None
        return self._result

    def fail(self, error: BaseException) -> None:
        """Note what ended the attempt."""
        self.value, self._error = None, error

    def call(self) -> object:
        """Call the task's function."""
        task, args = self.known.task, self.args
        if task.takes_context:
            args = [StepContext(task_result=self.result, message=self.delivery.message), *args]
        if inspect.iscoroutinefunction(task.func):
            return in_own_loop(self.delivery, partial(task.func, *args, **self.kwargs))
        return task.func(*args, **self.kwargs)

    def finish(self) -> None:
        """Tell those who listen how it ended, which is committed now."""
        if not self.has_returned:  # it was acked in one commit with its rows, and the reply was lost
            send_end(self.delivery.claim.id, using=self.delivery.session.using)
        elif is_heard("task_finished", logging.INFO):
            object.__setattr__(self.result, "finished_at", as_django_shows(datetime.now(UTC)))
            object.__setattr__(self.result, "status", TaskResultStatus.SUCCESSFUL)
            object.__setattr__(self.result, "_return_value", self.value)
            send("task_finished", self.known.sender, self.result)

    def start(self) -> None:
        """Tell those who listen that it begins."""
        if is_heard("task_started", logging.INFO):
            send("task_started", self.known.sender, self.result)


class TaskAdapter:
    """A runner of the tasks of a queue, shared by the threads of a worker."""

    def __init__(self) -> None:
        self._runs: dict[Delivery, Run] = {}
        """What is being run, for ``judge``: a message may be claimed again while its first claim still runs here."""

    def run(self, delivery: Delivery) -> Verdict:
        """Run the task and return the verdict; raise what ends it otherwise."""
        message = delivery.message
        try:
            known = known_task(message)
        except UnknownTask as error:
            if datetime.now(UTC) - message.due_at >= UNKNOWN_FOR:
                raise
            logger.warning("message %s: %s Released for %g s.", message.pk, error, UNKNOWN_PAUSE)
            return Verdict("release", UNKNOWN_PAUSE, str(error))
        if known.expires is not None and message.claimed_at > known.expires:
            delivery.when_ended = partial(send_end, delivery.claim.id, using=delivery.session.using)
            return Verdict("drop", error=f"{EXPIRED}it was not to be run after {known.expires.isoformat()}.")
        if known.options.is_about_its_run or delivery.options.timeout is not None:
            delivery.hold_to(known.options.over(delivery.options))
        run = self._runs[delivery] = Run(delivery, known)
        run.start()
        if is_heard("task_finished", logging.INFO):
            delivery.when_ended = run.finish
        verdict = _in_one_commit(run) if known.options.transactional else _plain(run)
        del self._runs[delivery]
        run.has_returned = True
        return verdict

    def judge(self, delivery: Delivery, error: BaseException) -> Verdict:
        """Return the verdict that follows from what ``run`` raised."""
        run = self._runs.pop(delivery, None)
        if isinstance(error, Suspended) or delivery.cancelled_at is not None:
            return decided(delivery, error)
        if run is not None:
            delivery.hold_to(run.known.options.over(delivery.options))
        if isinstance(error, InvalidResult):
            error = TypeError(str(error))
            verdict = Verdict("reject", error=error_text(error) or "", exception=class_path(error))
        else:
            verdict = decided(delivery, error)
        verdict = verdict._replace(keeps_trace=True)
        if run is None:
            return verdict
        run.fail(error)
        try:
            if verdict.verb == "nack" and not delivery.is_last and not isinstance(error, Retry):
                verdict = _delayed(verdict, run, error)
        except Exception:  # of its backoff, or of the database: what the task itself raised is what counts
            logger.exception("message %s: %s failed, and then this", delivery.message.pk, run.known.task.module_path)
        return verdict

    def options_of(self, message: Message, of_queue: conf.QueueOptions) -> conf.QueueOptions:
        """Return what holds for a task, also in the supervisor of the child that ran it."""
        try:
            return known_task(message).options.over(of_queue)
        except Exception:  # a task that isn't here, or is none
            return of_queue

    def name_of(self, headers_text: str | None) -> str | None:
        """Return the dotted name of the task that a message with these headers is."""
        return task_named(headers_text)


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
            keep(run.delivery.session, {message.pk: kept}, {message.pk})

    return in_transaction(run.delivery, work)


def _kept(run: Run, value: object) -> Kept | None:
    """Return what is kept of a value, which the result then shows; InvalidResult if JSON can't express it."""
    if value is None:
        return None
    try:
        run.value = in_json(value, most_bytes=run.known.most_bytes)
        body, content_type, types = codecs.encode(run.value, max_bytes=run.known.most_bytes)
    except (TypeError, ValueError) as error:
        path = run.known.task.module_path
        unrun = unrun_text(path, value)
        text = f"{path} returned what can't be kept as a result" if unrun is None else unrun.rstrip(".")
        raise InvalidResult(f"{text}: {error}") from error
    seconds = run.known.options.keep_results
    if not seconds or (run.delivery.options.on_ack == conf.DELETE and run.delivery.flow is None):
        return None
    return Kept(body, content_type, seconds, run.delivery.flow, types)


def _delayed(verdict: Verdict, run: Run, error: BaseException) -> Verdict:
    """Return a retry's verdict with the delay that the task's function says; a rejection if it wants no more."""
    wanted = run.known.options.backoff
    if not callable(wanted):
        return verdict  # by the delivery's options, which are the task's own
    delay = wanted(error, run.result)
    if delay is None:
        return verdict._replace(verb="reject", delay=None)
    return verdict._replace(delay=check_seconds("backoff", delay))


def _task_error(error: BaseException) -> TaskError:
    return TaskError(
        exception_class_path=class_path(error) or "builtins.Exception",
        traceback="".join(traceback.format_exception(error)),
    )
