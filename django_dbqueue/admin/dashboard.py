"""The dashboard: queues, workers and what ended lately, on the app's page; its script requests the same as JSON.

The tables are rendered only here: the page has them from the start, and the script replaces them with newer ones. What
a person may not see is left out of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import Error, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy

from django_dbqueue.admin import display
from django_dbqueue.admin.state_words import WORDS
from django_dbqueue.admin.tiles import TOTALLED, all_depths, tiles
from django_dbqueue.envelope import check_queue
from django_dbqueue.exceptions import InvalidMessage, UnsupportedDatabase
from django_dbqueue.insight.activity import Busy, Held, busy_workers, incoming
from django_dbqueue.insight.counter import MINUTE, floor
from django_dbqueue.insight.overview import QueueOverview, known_queues, overview
from django_dbqueue.insight.series import SPANS, Point, series
from django_dbqueue.models import ALL_QUEUES, Queue, QueueMinute
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import DjangoSession, session_for
from django_dbqueue.states.counts import Capped, grouped, total_of
from django_dbqueue.states.depths import Depth, depths
from django_dbqueue.typed_values import typed_whole

CAP: Final = 1_000
"""Where counting stops."""
PAGE: Final = 25
URGENT: Final = ("stuck", "dead")
ATTENTION: Final = (*URGENT, "running")
"""The states in the box on the front page."""
SHOWN: Final = (*URGENT, "running", "ready", "delayed", "waiting")
_SPANS: Final = {
    "hour": gettext_lazy("last hour"),
    "day": gettext_lazy("last day"),
    "week": gettext_lazy("last week"),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What a page shows, according to its URL; invalid values mean the default."""

    span: str
    queue: str
    page: int

    @classmethod
    def of(cls, request: HttpRequest) -> Choice:
        """Read the URL's query."""
        span, page = request.GET.get("span", ""), typed_whole(request.GET.get("p", ""), 0, 99_999)
        try:
            queue = check_queue(request.GET.get("queue", ""))
        except InvalidMessage:
            queue = ALL_QUEUES
        return cls(span if span in SPANS else "hour", queue, 1 if page is None else page)

    def query(self, **changed: object) -> str:
        """Return the query of a page with these changes."""
        values = {"span": self.span, "queue": self.queue, "p": self.page} | changed
        return "?" + urlencode({name: str(value) for name, value in values.items() if value not in ("", 1, "hour")})


def may(request: HttpRequest, what: str) -> bool:
    """Return whether this person may see rows of a model."""
    return bool(request.user.has_perm(f"django_dbqueue.view_{what}"))


def dashboard(request: HttpRequest) -> dict[str, object]:
    """Return what the page shows; nothing for users who may not see queues."""
    if not may(request, "queue"):
        return {"visible": False}
    choice = Choice.of(request)
    return {
        "visible": True,
        "url": _Links(request)("queue", "figures") + choice.query(),
        "choice": choice,
        "spans": [(choice.query(span=name), label, name == choice.span) for name, label in _SPANS.items()],
        "all_queues": choice.query(queue=""),
        "sees_charts": may(request, "queuestatistic"),
        **_figures(request, choice),
    }


def shortcuts(request: HttpRequest) -> dict[str, object]:
    """Return what the box on the admin's front page shows: how many messages need attention, and where they are."""
    links = _Links(request)
    try:
        pages = {name: links.listing(state=name) for name in ATTENTION} if links.sees_messages else {}
    except NoReverseMatch:  # a site of the project's own that lacks them
        return {}
    try:
        counts = _counts() if pages else {}
    except (Error, UnsupportedDatabase):  # the page is about more than the queue
        counts = {}
    return {
        "shortcuts": [(WORDS[name], url, counts.get(name)) for name, url in pages.items()],
        "dashboard": links.dashboard() if may(request, "queue") and request.path != links.dashboard() else "",
    }


def _counts() -> dict[str, Capped]:
    """Return how many messages need attention, at most ``CAP`` index entries a state."""
    session = session_for(Queue)
    # A page in one transaction has to live on after an error
    with transaction.atomic(session.using) if session.connection.in_atomic_block else nullcontext():
        names = known_queues(session)
        deep = depths(session, names, states=ATTENTION, cap=max(1, CAP // max(1, len(names)))).values()
    return {name: total_of(each.counts[name] for each in deep) for name in ATTENTION}


def figures(request: HttpRequest) -> HttpResponse:
    """Answer the script: the tables as HTML, and the points of the charts."""
    if not may(request, "queue"):
        raise PermissionDenied
    shown = _figures(request, Choice.of(request))
    points: list[Point] = shown["points"]
    return JsonResponse(
        {
            "html": render_to_string("admin/django_dbqueue/figures.html", shown, request=request),
            "tiles": render_to_string("admin/django_dbqueue/tiles.html", shown, request=request),
            "series": _columns(points, shown["step"]),
        }
    )


def _figures(request: HttpRequest, choice: Choice) -> dict[str, Any]:
    session = session_for(Queue)
    link = _Links(request)
    deep = all_depths(session, known_queues(session), budget=CAP * PAGE)
    pages = Paginator(_by_urgency(session, deep), PAGE)
    page = pages.get_page(choice.page)
    coming, now = incoming(session), clock(session.using)
    ended = dict(
        QueueMinute.objects.using(session.using)
        .filter(minute=floor(now, MINUTE) - MINUTE, shown=True)
        .values_list("queue", "messages")
    )
    span = SPANS[choice.span]
    found = overview(session, list(page.object_list), cap=CAP)
    sees_workers, sees_charts = may(request, "worker"), may(request, "queuestatistic")
    workers = busy_workers(session) if sees_workers else []
    return {
        "tiles": tiles(
            session,
            deep,
            now,
            urls=_tile_urls(link, sees_workers=sees_workers),
            workers=sum(each.beats for each in workers) if sees_workers else None,
            ended=ended[ALL_QUEUES] if ALL_QUEUES in ended else sum(ended.values()),
        ),
        "choice": choice,
        "now": now,
        "queues": [_queue_row(link, choice, each, found.at, coming.by_queue, ended) for each in found.queues],
        "states": [WORDS[name] for name in SHOWN],
        "estimate": coming.is_estimate,
        "page": page,
        "pages": [(number, choice.query(p=number)) for number in pages.page_range],
        "sees_workers": sees_workers,
        "workers": [_worker_row(link, each) for each in workers],
        "points": series(session, span, choice.queue) if sees_charts else [],
        "step": span.step,
        "sees_charts": sees_charts,
    }


def _by_urgency(session: DjangoSession, deep: Mapping[str, Depth]) -> list[str]:
    """Return the names of all queues, those that need attention first."""
    paused = Queue.objects.using(session.using).paused_names()

    def is_urgent(name: str) -> bool:
        return name in paused or any(deep[name].counts[state] for state in URGENT)

    return sorted(deep, key=lambda name: (not is_urgent(name), name))


def _tile_urls(link: _Links, *, sees_workers: bool) -> dict[str, str]:
    urls = {state: link.listing(state=state) for state in TOTALLED} if link.sees_messages else {}
    return urls | ({"workers": link("worker", "changelist")} if sees_workers else {})


def _queue_row(
    link: _Links, choice: Choice, each: QueueOverview, now: datetime, coming: dict[str, int], ended: dict[str, int]
) -> dict[str, object]:
    return {
        "name": each.name,
        "url": link("queue", "change", quote(each.name)) if each.name else "",
        "charts": choice.query(queue=each.name),
        "queue": each.queue,
        "state": display.claims_of(each.queue),
        "counts": [
            (name, each.counts[name], link.listing(queue=each.name, state=name) if link.sees_messages else "")
            for name in SHOWN
        ],
        "oldest": None if each.oldest_ready is None else display.span(now - each.oldest_ready),
        "in": grouped(coming.get(each.name, 0)),
        "out": grouped(ended.get(each.name, 0)),
        "workers": each.workers,
        "threads": each.threads,
    }


def _worker_row(link: _Links, each: Busy) -> dict[str, object]:
    worker = each.worker
    return {
        "worker": worker,
        "queues": ", ".join(worker.queues.split(",")),
        "url": link("worker", "change", quote(worker.pk)),
        "beats": display.beat_badge(worker, worker.now),
        "last_beat": display.ago(worker.now - worker.beat_at),
        "holds": [_held(link, held, worker.now) for held in each.holds] if link.sees_messages else [],
        "more": max(0, worker.held - len(each.holds)) if link.sees_messages else 0,
    }


def _held(link: _Links, held: Held, now: datetime) -> dict[str, object]:
    url = link("message", "change", held.id)
    return {"url": url, "id": held.id, "queue": held.queue, "for": display.span(now - held.since)}


def _columns(points: Iterable[Point], step: timedelta) -> dict[str, list[float | None]]:
    """Return the chart data: moments in seconds, counts per minute, and times in seconds."""
    each, minutes = list(points), step / MINUTE
    columns: dict[str, list[float | None]] = {"at": [point.at.timestamp() for point in each]}
    for name in ("messages", "failures", "dead"):
        columns[name] = [getattr(point, name) / minutes for point in each]
    for name in ("wait_p50", "wait_p95", "run_p50", "run_p95"):
        columns[name] = [getattr(point, name) for point in each]
    return columns


class _Links:
    """Links to pages of the site that handles the request."""

    def __init__(self, request: HttpRequest) -> None:
        self._site = getattr(request, "current_app", None)
        self.sees_messages = may(request, "message")

    def listing(self, **filters: str) -> str:
        """Return the address of the list of messages, with these filters."""
        return f"{self('message', 'changelist')}?{urlencode(filters)}"

    def dashboard(self) -> str:
        """Return the address of the app's own page."""
        return reverse("admin:app_list", args=["django_dbqueue"], current_app=self._site)

    def __call__(self, model: str, view: str, *arguments: object) -> str:
        return reverse(f"admin:django_dbqueue_{model}_{view}", args=arguments, current_app=self._site)
