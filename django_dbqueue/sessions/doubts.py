"""What an error is about whose code doesn't say it: a row that the server refuses each time, or the server itself.

A project's trigger may fail with any code: a table that is missing, a division by zero, a number of its own. So it is
judged by what the server does. If it gives the same error again and again, while it reads and writes the queue's own
tables, it refuses a row. Otherwise it is an outage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from django.apps import apps
from django.db import DatabaseError, Error

from django_dbqueue.sessions.retry import distinct, judge_refused

Result = TypeVar("Result")

PAUSES: Final = (0.05, 0.2)
"""Seconds before each repetition."""


def judged(using: str, work: Callable[[], Result], error: Exception) -> Result:
    """Run ``work`` again, which has failed with an error that may be about a row; raise what it raises.

    ``is_refused`` is true of an error that was the same each time.
    """
    for pause in PAUSES:
        time.sleep(pause)
        if not _works(using):
            raise error
        try:
            return work()
        except DatabaseError as again:
            if distinct(again) != distinct(error):
                raise
            error = again
    judge_refused(error)
    return work()  # it may go on without the row now


def _works(using: str) -> bool:
    """Return whether the server reads and writes our tables as they are to be, though it finds no row there."""
    try:
        for model in apps.get_app_config("django_dbqueue").get_models():
            rows: Any = model._base_manager.using(using)
            list(rows.extra(where=["1 = 0"]))
        apps.get_model("django_dbqueue", "Message")._base_manager.using(using).filter(pk=0).update(priority=0)
    except Error:
        return False
    return True
