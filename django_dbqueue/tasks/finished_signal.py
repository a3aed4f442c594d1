"""``task_finished``: sent once for each end of a task, when it is committed, by whoever committed it.

A worker that acks a task has its result at hand (``task_adapter``). Whatever else ends a task (it dies, an operator
drops it, a supervisor settles it after its child's death) is announced here, from the task's row.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import connections, transaction

from django_dbqueue import signals
from django_dbqueue.sessions.commit_hooks import is_only_a_testcase
from django_dbqueue.tasks.backends_in_use import backends

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyResult

logger = logging.getLogger("django_dbqueue.tasks")


def connect() -> None:
    """Start listening to what ends messages; connecting twice changes nothing."""
    signals.message_died.connect(_ended, dispatch_uid="django_dbqueue.tasks.finished_signal.died")
    signals.message_ended.connect(_ended, dispatch_uid="django_dbqueue.tasks.finished_signal.ended")


def is_heard(name: str, level: int) -> bool:
    """Return whether a signal has a receiver besides Django's own, which only logs, or whether Django's log is on.

    By default it is on, and makes a record of each start and end, which nobody sees in production.
    """
    from django_dbqueue.tasks import compat

    return len(compat.signal(name).receivers) > 1 or logging.getLogger(compat.HOME).isEnabledFor(level)


def send(name: str, sender: type, result: AnyResult) -> None:
    """Send a signal. What a receiver raises is logged; neither it nor a log that can't be written ends a task."""
    from django_dbqueue.tasks import compat

    with suppress(Exception):  # of a handler or filter of the log to which Django tells what a receiver raised
        compat.signal(name).send_robust(sender, task_result=result)


def send_end(message_id: int, exception: BaseException | None = None, *, using: str) -> None:
    """Send the end of a task as its row in this database has it; nothing for what is no task here, or has not ended.

    Meanwhile ``exception``, what the task raised, is being handled: Django's log reports it.
    """
    from django_dbqueue.tasks.compat import TaskResultDoesNotExist
    from django_dbqueue.tasks.task_results import backend_of, result_by_id

    if not is_heard("task_finished", logging.ERROR):
        return
    try:
        backend = backends().get(backend_of(message_id, using))
        result = None if backend is None else result_by_id(str(message_id), backend.alias, using=using)
    except TaskResultDoesNotExist:
        return
    if result is None or not result.is_finished:
        return
    announce = partial(send, "task_finished", type(backend), result)
    if exception is None:
        announce()
        return
    try:
        raise exception
    except BaseException:
        announce()


def _ended(*, message_id: int, exception: BaseException | None = None, using: str | None = None, **_: object) -> None:
    from django_dbqueue.models import Message
    from django_dbqueue.models.aliases import db_alias

    if not backends():
        return
    connection: Any = connections[using or db_alias(Message)]
    if connection.in_atomic_block and not is_only_a_testcase(connection):
        announce = partial(send_end, message_id, exception, using=connection.alias)
        transaction.on_commit(announce, using=connection.alias, robust=True)
    else:
        send_end(message_id, exception, using=connection.alias)
