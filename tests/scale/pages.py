"""The paths of all of the app's pages in the admin, in one list: found by asking Django for its URLs.

A page with an argument is listed for each sample of its model. Who adds a page with another argument, or with a query
that makes it another page, teaches it here; an URL that nobody taught fails the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from django.contrib.admin.utils import quote
from django.db.models import Model
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils.http import urlencode

from django_dbqueue.admin.bounded_lists import LIST_CAP
from django_dbqueue.admin.state_words import WORDS
from django_dbqueue.insight.series import SPANS
from django_dbqueue.models import (
    ArchivedMessage,
    BulkOperation,
    ExportBatch,
    Failure,
    Flow,
    HistoryReader,
    Message,
    QueueStatistic,
    Schedule,
    Stream,
    StreamClaim,
    Worker,
)
from tests.scale.size import GROUP, HOT, KEY, TASK, WIDE, hot, name_of

PREFIX: Final = "django_dbqueue_"
OTHERS: Final[tuple[type[Model], ...]] = (
    ArchivedMessage,
    BulkOperation,
    QueueStatistic,
    Schedule,
    Worker,
    Stream,
    StreamClaim,
    HistoryReader,
    ExportBatch,
)
QUEUES: Final = [*map(hot, HOT), name_of(150)]


def paths() -> dict[str, str]:
    """Return the path of each page by a name that says what it is of."""
    found: dict[str, str] = {}
    samples = _samples()
    for pattern in _patterns():
        model = str(pattern.name).removeprefix(PREFIX).partition("_")[0]
        arguments = list(pattern.pattern.converters)
        if not arguments:
            found[str(pattern.name)] = reverse(f"admin:{pattern.name}")
            continue
        assert len(arguments) == 1, f"{pattern.name} takes {arguments}: teach tests/scale/pages.py what to give it"
        assert model in samples, f"{pattern.name}: teach tests/scale/pages.py some of its objects"
        for what, key in samples[model].items():
            found[f"{pattern.name} {what}"] = reverse(f"admin:{pattern.name}", args=[key])
    assert found, "no URL of the app was found"
    home = reverse("admin:app_list", args=["django_dbqueue"])
    for span in SPANS:
        for queue in ("", hot("done")):
            query = urlencode({"span": span, "queue": queue})
            found[f"dashboard, {span} {queue}"] = f"{home}?{query}"
            found[f"figures, {span} {queue}"] = f"{reverse(f'admin:{PREFIX}queue_figures')}?{query}"
    found["dashboard, last page"] = f"{home}?p=99"
    return found | _lists()


def _lists() -> dict[str, str]:
    found = {}
    messages = reverse(f"admin:{PREFIX}message_changelist")
    for state in WORDS:
        for queue in ("", *QUEUES):
            query = {"state": state} | ({"queue": queue} if queue else {})
            found[f"{state} {queue}"] = f"{messages}?{urlencode(query)}"
        found[f"last page of {state}"] = f"{messages}?{urlencode({'state': state, 'p': LIST_CAP // 50})}"
        for task in (TASK, "no.such.task"):
            found[f"{state} of {task}"] = f"{messages}?{urlencode({'state': state, 'task': task})}"
        found[f"{state} with a key"] = f"{messages}?{urlencode({'state': state, 'q': KEY})}"
    for text in (KEY, "no such key", "7", str(2**63 - 1)):
        found[f"search for {text}"] = f"{messages}?{urlencode({'q': text})}"
        found[f"search for {text} in a queue"] = f"{messages}?{urlencode({'q': text, 'queue': hot('done')})}"
    archive = reverse(f"admin:{PREFIX}archivedmessage_changelist")
    found |= {"archive, last page": f"{archive}?p={LIST_CAP // 50}", "archive, search": f"{archive}?q=7"}
    found["queues, search"] = f"{reverse(f'admin:{PREFIX}queue_changelist')}?q=1"
    groups = reverse(f"admin:{PREFIX}group_changelist")
    found |= {f"groups of {queue}": f"{groups}?queue={queue}" for queue in QUEUES}
    found |= {f"groups, search for {text}": f"{groups}?q={text}" for text in (GROUP, "nobody")}
    found["groups, last page"] = f"{groups}?p={LIST_CAP // 25}"
    failures = reverse(f"admin:{PREFIX}failure_changelist")
    found |= {f"failures of {queue}": f"{failures}?queue={queue}" for queue in QUEUES}
    found |= {f"dead of failure {number}": f"{messages}?failure={number}" for number in (1, 2)}
    found["failures, last page"] = f"{failures}?p={LIST_CAP // 25}"
    found["operations, last page"] = f"{reverse(f'admin:{PREFIX}bulkoperation_changelist')}?p={LIST_CAP // 50}"
    found["queues, second page"] = f"{reverse(f'admin:{PREFIX}queue_changelist')}?p=2"
    statistics = reverse(f"admin:{PREFIX}queuestatistic_changelist")
    found |= {f"statistics of {queue}": f"{statistics}?q={queue}" for queue in QUEUES[:1]}
    found["statistics, second page"] = f"{statistics}?p=2"
    return found


def _samples() -> dict[str, dict[str, Any]]:
    """What pages with an argument are shown for, by model: as it stands in the URL."""
    messages = {state: getattr(Message.objects, state)(hot(state)).values_list("pk", flat=True)[0] for state in HOT}
    return {
        "message": messages,
        "queue": {name: quote(name) for name in QUEUES},
        "group": {name: quote(f"{hot('waiting')}/{name}") for name in (GROUP, WIDE, "idle")},
        "flow": {"of many": _last(Flow)},
        "failure": {"of most": "1", "the last": _last(Failure)},
        **{str(model._meta.model_name): {"the last": _last(model)} for model in OTHERS},
    }


def _last(model: type[Model]) -> Any:
    return quote(model._default_manager.order_by("-pk").values_list("pk", flat=True)[0])


def _patterns() -> Iterator[URLPattern]:
    """The URLs that the app has in the admin; Django's own catch-all, which redirects, is none of them."""
    for prefix, pattern in _walk(get_resolver(), ""):
        if "/django_dbqueue/" in f"/{prefix}" and str(pattern.name).startswith(PREFIX):
            yield pattern


def _walk(resolver: URLResolver, prefix: str) -> Iterator[tuple[str, URLPattern]]:
    for each in resolver.url_patterns:
        route = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from _walk(each, route)
        else:
            yield route, each
