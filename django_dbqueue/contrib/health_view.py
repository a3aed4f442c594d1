"""``path("health", HealthView.as_view())``: what ``queue_status --check`` says, as JSON."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from django.db import Error
from django.http import HttpRequest, JsonResponse
from django.utils.decorators import method_decorator
from django.views import View

from django_dbqueue.contrib.access import for_monitors
from django_dbqueue.insight.overview import overview, troubles
from django_dbqueue.models import Message
from django_dbqueue.models.aliases import db_alias
from django_dbqueue.sessions.django_session import session_of

logger = logging.getLogger("django_dbqueue")

DATABASE_DOWN = "database"


class Problem(NamedTuple):
    """What is wrong with a queue."""

    queue: str
    problem: str
    """One of ``TROUBLES``."""
    paused_until: datetime | None = None
    """If it is *paused*: when the pause ends. None: not before somebody resumes the queue."""


def problems(
    using: str, *, queues: Collection[str] | None = None, max_age: float | None = None, ignore: Collection[str] = ()
) -> list[Problem]:
    """Return what is wrong, queue by queue; of all queues without ``queues``, which may be the name of one."""
    if isinstance(queues, str):
        queues = (queues,)
    seen = overview(session_of(using), queues, cap=1)  # whether there are any is enough
    return [
        Problem(each.name, trouble, each.queue.paused_until if trouble == "paused" else None)
        for each in seen.queues
        for trouble in troubles(each, seen.at, max_age, ignore)
    ]


@method_decorator(for_monitors, name="dispatch")
class HealthView(View):
    """``{"ok": …, "problems": [{"queue": …, "problem": …}]}``: 200 if there are none, else 503.

    The problems are *stuck*, *dead*, *paused* (with ``paused_until`` if the pause has an end), *no-worker*, *old*, and
    *database* (whose queue is None) if it can't be read.
    """

    queues: Collection[str] | None = None
    """The queues to look at, or the name of one; None: all."""
    max_age: float | None = None
    """Seconds that a ready message may wait, before its queue counts as *old*; None: no limit."""
    ignore: Collection[str] = ()
    """Problems that are none here."""

    def get(self, request: HttpRequest) -> JsonResponse:  # noqa: ARG002
        """Look at the queues."""
        alias = db_alias(Message)
        try:
            found = problems(alias, queues=self.queues, max_age=self.max_age, ignore=self.ignore)
        except Error:
            logger.exception("the database %r can't be read for a health check", alias)
            return _answer([{"queue": None, "problem": DATABASE_DOWN}])
        return _answer([_entry(each) for each in found])


def _entry(found: Problem) -> dict[str, object]:
    end = {} if found.paused_until is None else {"paused_until": found.paused_until}
    return {"queue": found.queue, "problem": found.problem, **end}


def _answer(listed: list[dict[str, object]]) -> JsonResponse:
    return JsonResponse({"ok": not listed, "problems": listed}, status=503 if listed else 200)
