"""Tasks with a cron, in every worker that has their code: found in the modules ``tasks`` of the installed apps."""

from __future__ import annotations

import inspect
import logging
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from django.db import Error

from django_dbqueue import conf
from django_dbqueue.codecs import Json
from django_dbqueue.consumers import consumer_modules
from django_dbqueue.consumers.scheduled import Scheduled
from django_dbqueue.envelope import QUEUE_NAME, seal
from django_dbqueue.exceptions import InvalidMessage, InvalidSchedule
from django_dbqueue.schedules.declarations import Plan, read
from django_dbqueue.tasks import backends_in_use

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyTask

MODULE: Final = "tasks"
_MOST_OF_PATH: Final = 55
_OTHERS: Final = re.compile(r"[^A-Za-z0-9_.]")

logger = logging.getLogger("django_dbqueue.tasks")


def scheduled_tasks() -> Iterator[Scheduled]:
    """Yield the tasks with a cron, once the modules ``tasks`` are imported; none where no backend is this one."""
    if backends_in_use.unimportable() or not (ours := backends_in_use.backends()):
        return
    unimportable()  # what can't be is a warning of the checks, and in the log of a worker
    from django_dbqueue.tasks.options import scheduled_paths

    for path, module in sorted(scheduled_paths.items()):
        if module not in sys.modules:  # its import failed further down
            continue
        if (alias := _backend_of(path)) is None or alias in ours:
            yield Scheduled(name_of(path), f"the task {path}", partial(plan_of, path))


def unimportable() -> dict[str, Exception]:
    """Import the modules ``tasks`` of the installed apps; return why others can't be, by module."""
    return consumer_modules.unimportable(MODULE)


def log_unimportable() -> None:
    """Log, in a worker, which of them can't be imported: other processes may lack on purpose what they need."""
    if backends_in_use.unimportable() or not backends_in_use.backends():
        return
    for module, error in unimportable().items():
        logger.error("%s can't be imported, so no task in it is scheduled: %s", module, error, exc_info=error)


def name_of(path: str) -> str:
    """Return the name of a task's schedule: its path; of one that no schedule can have, the end of it and a hash."""
    if QUEUE_NAME.match(path):
        return path
    readable = _OTHERS.sub("-", path[-_MOST_OF_PATH:]).lstrip("-_.")
    return f"{readable or 'task'}:{sha256(path.encode()).hexdigest()[:8]}"


def _backend_of(path: str) -> str | None:
    """Return the alias of a task's backend; None for what is no task, as its plan says."""
    from django_dbqueue.tasks.lookup import Unfindable, import_task

    try:
        return import_task(path).backend
    except Unfindable:
        return None


def plan_of(path: str) -> Plan:
    """Return the schedule of a task; InvalidSchedule if no worker could enqueue it."""
    from django_dbqueue.tasks.compat import InvalidTask
    from django_dbqueue.tasks.lookup import Unfindable, import_task
    from django_dbqueue.tasks.options import schedule_of

    try:
        task = import_task(path)
        _check_arguments(task)
        backend: Any = task.get_backend()
        backend.validate_task(task)
        plan = read(name_of(path), {**(schedule_of(task) or {}), "payload": {"args": [], "kwargs": {}}})
        _check_message(task, backend)
    except (Unfindable, InvalidTask, InvalidMessage) as error:
        raise InvalidSchedule(f"{path} has a cron, but can't be enqueued: {error}") from error
    return replace(plan, enqueue=partial(_enqueue, task))


def _check_arguments(task: AnyTask) -> None:
    try:
        inspect.signature(task.func).bind(*((None,) if task.takes_context else ()))
    except TypeError as error:
        raise InvalidMessage(f"its cron gives it no arguments, so each needs a default ({error})") from None


def _check_message(task: AnyTask, backend: Any) -> None:
    """Raise InvalidTask or InvalidMessage if its message can't be stored.

    Not for what the function of its group asks of the database: Django checks before it migrates, and then the tables
    may be missing.
    """
    from django_dbqueue.tasks.compat import InvalidTask
    from django_dbqueue.tasks.envelopes import envelope_of
    from django_dbqueue.tasks.options import options_of

    try:
        envelope = envelope_of(task, (), {}, options_of(task, backend.options), backend.alias)
    except InvalidTask as error:
        if isinstance(error.__cause__, Error):
            return
        raise
    queue = conf.for_senders(task.queue_name)
    seal(envelope, queue=task.queue_name, priority=0, max_bytes=queue.max_bytes, is_whole_queue=queue.is_whole_queue)


def _enqueue(task: Any, headers: dict[str, Json], using: str) -> int:
    """Enqueue it as everybody does, so that whoever hooks into that sees it; return the message's id."""
    return int(replace(task, call_options={"headers": headers, "using": using}).enqueue().id)
