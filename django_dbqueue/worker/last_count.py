"""What a worker ended is counted before it ends: nobody may be there to do it later.

Fresh counts lag behind the clock, so that they miss little that is still being committed. All that this worker ended is
committed by now, so it waits for that lag only while other workers live.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from django.db import Error

from django_dbqueue.insight.counter import BEHIND, Counter
from django_dbqueue.models import Worker
from django_dbqueue.models.fields import clock
from django_dbqueue.models.worker_row import beating
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.worker.shutdown import StopSignals
from django_dbqueue.worker.worker_options import WorkerOptions

MOMENT: Final = 1.0
"""Seconds that the count has even if the grace is over."""
_RESOLUTION: Final = timedelta(milliseconds=1)
"""The coarsest clock of a database: what ended within the same millisecond is counted too."""
_AWHILE: Final = 0.02

logger = logging.getLogger("django_dbqueue.worker")


def count_what_ended(
    options: WorkerOptions, totals: Mapping[str, int], stop: StopSignals, deadline: float | None
) -> None:
    """Count all that has ended by now, if this worker ended anything, within its grace or until a second signal.

    A worker whose grace went to a handler that did not end has a moment more.
    """
    until = max(time.monotonic() + MOMENT, deadline or time.monotonic() + options.grace)
    if not (totals["done"] or totals["died"]):
        return
    try:
        _count(options.session, lambda: stop.received > 1 or time.monotonic() >= until)
    except Error as error:
        logger.warning("can't count what has ended: %s", " ".join(str(error).split()))


def _count(session: DjangoSession, gives_up: Callable[[], bool]) -> None:
    now = clock(session.using)
    moment = now + _RESOLUTION
    if Worker.objects.using(session.using).filter(beating(now)).exists():
        while clock(session.using) < moment + BEHIND and not gives_up():
            time.sleep(_AWHILE)
    if not gives_up():
        Counter(session).count_to(moment, gives_up=gives_up)
