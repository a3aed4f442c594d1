"""One look at the schedule ``s``, by a process that is killed on its way: ``python -m tests.schedules.looker …``.

The arguments are the cron expression, '' if the row is all that there is, and a place. Before and after each statement
is a place; at the place of that number the process kills itself.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import django


def main(cron: str, place: int) -> None:
    django.setup()
    from django.db import connection

    from django_dbqueue.models.fields import clock
    from django_dbqueue.schedules.declarations import read
    from django_dbqueue.sessions.django_session import session_of
    from django_dbqueue.worker.timetable import Timetable

    places = iter(range(10**6))

    def here() -> None:
        if next(places) == place:
            os.kill(os.getpid(), signal.SIGKILL)

    def count(execute: Any, *statement: Any) -> Any:
        here()
        result = execute(*statement)
        here()
        return result

    options = {"queue": "tests", "cron": cron, "timezone": "UTC", "missed": "all"}
    timetable = Timetable(session_of("default"), (read("s", options),) if cron else (), clock("default"))
    with connection.execute_wrapper(count):
        timetable.added = "" if cron else "1"
        timetable.run(0.0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
