"""What becomes dead, or is rescued, in a stream: it joins a group of failures, and is told, as everywhere else.

A stream's processes have no Django, and so nobody there who could listen to its signals: they log. In a process with
Django, the app listens here, and sends the signal, whose log it is then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from django_dbqueue.databases import Change
from django_dbqueue.databases.session import Session
from django_dbqueue.failures.failure_group_rows import group_of
from django_dbqueue.statements.events_sql import FAILURES

logger = logging.getLogger("django_dbqueue")


class Death(NamedTuple):
    """A message that is dead since a commit."""

    queue: str
    message: int
    error: str


Listener = Callable[[Death], object]
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Let this be called with each death of a message in a stream, in place of the log."""
    if listener not in _listeners:
        _listeners.append(listener)


def tell(deaths: Iterable[Death]) -> None:
    """Tell of deaths once they are committed."""
    for death in deaths:
        for listener in _listeners:
            listener(death)
        if not _listeners:
            logger.error("message %s of %s is dead: %s", death.message, death.queue, death.error)


def blamed(session: Session, change: Change, queue: str) -> Change:
    """Return a change that knows which kind of failure it is, if it is one."""
    event = change.event
    if event is None or event.kind not in FAILURES or event.actor or not event.text:
        return change
    group = group_of(session, queue, event.text, event.exception)
    return change if group is None else change._replace(event=event._replace(failures=((queue, group),)))
