"""The consumer of the bulk operations' queue, which every worker has: a message is one step of one operation.

Each step checks again that the person who ordered the operation may still do it. The last one writes Django's admin
log, if that is installed.
"""

from __future__ import annotations

import logging
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model

from django_dbqueue import conf
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.failures.error_texts import error_text
from django_dbqueue.models import BulkOperation, Message
from django_dbqueue.models.operation import FAILED, IN_PROGRESS, REFUSED
from django_dbqueue.operations.verbs import VERBS
from django_dbqueue.redaction import stored_texts
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.states.spent import is_spent

logger = logging.getLogger("django_dbqueue.worker")


def operations_consumer() -> Consumer:
    """Return the consumer of the queue that the settings name."""
    return Consumer(conf.get("OPERATIONS_QUEUE"), take_step)


def take_step(message: Any) -> None:
    """Take one step of the operation that the message names; its last failed delivery ends the operation."""
    session = session_of(message._state.db)
    try:
        session.outermost(lambda: _take_step(message, session))
    except Exception as error:
        text = error_text(error)
        if is_spent(message.read_count, message.max_reads):
            session.outermost(lambda: _fail(message, session, text))
        raise


def _take_step(message: Message, session: DjangoSession) -> None:
    with message.transaction():
        operation = BulkOperation.objects.locked(message.payload["operation"], using=session.using)
        if operation is None or operation.state != IN_PROGRESS:
            return
        if not _may(operation):
            operation.end(REFUSED, error=stored_texts.FORBIDDEN % {"user": operation.ordered_by})
        else:
            operation.take_step()
        if operation.state != IN_PROGRESS:
            log_end(operation)


def _user_of(operation: BulkOperation) -> Any:
    return get_user_model()._default_manager.filter(pk=operation.user_id).first()


def _may(operation: BulkOperation) -> bool:
    user = _user_of(operation)
    codenames = ("view_message", VERBS[operation.verb].codename)
    return user is not None and user.has_perms([f"django_dbqueue.{codename}" for codename in codenames])


def _fail(message: Message, session: DjangoSession, error: str | None) -> None:
    with session.transaction():
        operation = BulkOperation.objects.locked(message.payload["operation"], using=session.using)
        if operation is not None and operation.state == IN_PROGRESS:
            operation.end(FAILED, error=error)
            log_end(operation)


def log_end(operation: BulkOperation) -> None:
    """Write into the log, and into Django's admin log, how an operation ended."""
    words = {"state": operation.state, "moved": operation.moved, "left": operation.left_alone}
    logger.info("bulk operation %s by %s: %s", operation, operation.ordered_by, words)
    if apps.is_installed("django.contrib.admin") and _user_of(operation) is not None:
        from django.contrib.admin.models import CHANGE, LogEntry

        text = f"Ended ({operation.state}): {operation.moved} moved, {operation.left_alone} left alone."
        LogEntry.objects.log_actions(operation.user_id, [operation], CHANGE, text)
