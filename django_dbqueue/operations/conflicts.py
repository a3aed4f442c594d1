"""What an operator is told of a message that the database refused to change, while the others go on."""

from __future__ import annotations

from django.db import DatabaseError

from django_dbqueue.databases.errors import code_of
from django_dbqueue.exceptions import DBQueueError, DuplicateKey, InvalidMessage
from django_dbqueue.lifecycle.held_message import HeldMessage
from django_dbqueue.sessions.apart import name_refused
from django_dbqueue.sessions.retry import is_duplicate, is_refused, named


def conflict_of(error: DatabaseError, message: HeldMessage, queue: str) -> DBQueueError:
    """Return why this message, in or for this queue, is as it was; raise an error that is about no message."""
    if is_taken(error):
        return DuplicateKey(queue, message.key, message_id=message.pk)
    if not is_refused(error):
        raise error
    name_refused(message.pk, error)
    return InvalidMessage(f"message {message.pk}: the database refused the change ({named(error)}); the log says more.")


def is_taken(error: DatabaseError) -> bool:
    """Return whether a live message has the key."""
    return is_duplicate(error) or (code_of(error) is None and "UNIQUE" in str(error))
