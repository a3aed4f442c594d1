"""``path("health", HealthView.as_view())``: what ``queue_status --check`` says, as JSON."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.db import Error
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.utils.decorators import method_decorator
from django.views import View

from django_dbqueue.contrib.access import for_monitors
from django_dbqueue.envelope import check_queue, check_seconds
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.insight.overview import TROUBLES, overview, troubles, unknown_queues
from django_dbqueue.models import Message
from django_dbqueue.models.aliases import db_alias
from django_dbqueue.sessions.django_session import session_of

logger = logging.getLogger("django_dbqueue")

DATABASE_DOWN: Final = "database"
UNKNOWN: Final = "unknown"
IGNORABLE: Final = (*TROUBLES, UNKNOWN)


class Problem(NamedTuple):
    """What is wrong with a queue."""

    queue: str
    problem: str
    """One of ``IGNORABLE``."""
    paused_until: datetime | None = None
    """If it is *paused*: when the pause ends. None: not before somebody resumes the queue."""


class HealthOptions(NamedTuple):
    """Of which queues which problems count; None: all queues, and no limit to the age."""

    queues: tuple[str, ...] | None
    max_age: float | None
    ignore: tuple[str, ...]


def health_options(
    queues: Collection[str] | None = None, max_age: float | timedelta | None = None, ignore: Collection[str] = ()
) -> HealthOptions:
    """Return these options, checked: ImproperlyConfigured if a health check can't have them."""
    try:
        chosen = None if queues is None else tuple(check_queue(name) for name in _names("queues", queues))
        limit = None if max_age is None else check_seconds("max_age", max_age)
    except InvalidMessage as error:
        raise ImproperlyConfigured(f"A health check can't have this option: {error}") from error
    if chosen == ():
        raise ImproperlyConfigured(
            "queues is empty, so a health check would find nothing wrong: None means all queues."
        )
    ignored = _names("ignore", ignore)
    for name in ignored:
        if name not in IGNORABLE:
            raise ImproperlyConfigured(f"A health check can ignore {', '.join(IGNORABLE)}, not {name!r}.")
    return HealthOptions(chosen, limit, ignored)


def _names(option: str, given: object) -> tuple[Any, ...]:
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Collection):
        raise ImproperlyConfigured(f"{option} must be a list of names, or one name, not {given!r:.100}.")
    return tuple(dict.fromkeys(given))


def problems(
    using: str,
    *,
    queues: Collection[str] | None = None,
    max_age: float | timedelta | None = None,
    ignore: Collection[str] = (),
) -> list[Problem]:
    """Return what is wrong, queue by queue; of all queues without ``queues``, which may be the name of one."""
    options, session = health_options(queues, max_age, ignore), session_of(using)
    seen = overview(session, options.queues, cap=1)  # whether there are any is enough
    is_ignored = options.queues is None or UNKNOWN in options.ignore
    absent = [] if is_ignored else [each.name for each in seen.queues if not each.is_there]
    found = [Problem(name, UNKNOWN) for name in unknown_queues(session, absent)]
    return found + [
        Problem(each.name, trouble, each.queue.paused_until if trouble == "paused" else None)
        for each in seen.queues
        for trouble in troubles(each, seen.at, options.max_age, options.ignore)
    ]


def _without_database() -> JsonResponse:
    return _answer([{"queue": None, "problem": DATABASE_DOWN}])


@method_decorator(for_monitors(without_database=_without_database), name="dispatch")
class HealthView(View):
    """``{"ok": …, "problems": [{"queue": …, "problem": …}]}``: 200 if there are none, else 503.

    The problems are *stuck*, *dead*, *paused* (with ``paused_until`` if the pause has an end), *no-worker*, *old*,
    *unknown* (one of ``queues`` that doesn't exist), and *database* (whose queue is None) if it can't be read.
    """

    queues: Collection[str] | None = None
    """The queues to look at, or the name of one; None: all."""
    max_age: float | timedelta | None = None
    """Seconds that a ready message may wait, before its queue counts as *old*; None: no limit."""
    ignore: Collection[str] = ()
    """Problems that are none here."""

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., HttpResponseBase]:
        """Return the view; ImproperlyConfigured if its options can't be."""
        view = super().as_view(**initkwargs)
        made = cls(**initkwargs)
        health_options(made.queues, made.max_age, made.ignore)
        return view

    def get(self, request: HttpRequest) -> JsonResponse:  # noqa: ARG002
        """Look at the queues."""
        alias = db_alias(Message)
        try:
            found = problems(alias, queues=self.queues, max_age=self.max_age, ignore=self.ignore)
        except Error:
            logger.exception("the database %r can't be read for a health check", alias)
            return _without_database()
        return _answer([_entry(each) for each in found])


def _entry(found: Problem) -> dict[str, object]:
    end = {} if found.paused_until is None else {"paused_until": found.paused_until}
    return {"queue": found.queue, "problem": found.problem, **end}


def _answer(listed: list[dict[str, object]]) -> JsonResponse:
    return JsonResponse({"ok": not listed, "problems": listed}, status=503 if listed else 200)
