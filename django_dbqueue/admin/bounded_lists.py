"""Lists of messages that cost the same with ten rows or ten million.

A page is one state of one queue, or of each queue in turn: bounded ranges of the index ``dbqueue_claim``, one per
priority in use, read in the index's own order and only as far as the cap. Nothing counts the table; past the cap a
count is shown with a plus sign.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import InvalidPage, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest

from django_dbqueue.admin.state_words import WORDS, StateWords
from django_dbqueue.admin.task_names import SEARCHED, with_task
from django_dbqueue.envelope import hash_of_key
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.insight.failure_groups import dead_messages
from django_dbqueue.insight.first_ids import first_ids, ids_of_keys
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.counts import Capped
from django_dbqueue.states.ranges_in_use import Range, ranges_in_use
from django_dbqueue.typed_values import MAX_ID, typed_whole

LIST_CAP = 500
"""Rows that a list walks to; also how many messages one action takes."""
CELL_CAP = 100
"""Where the count in a table's cell stops."""
Kept = Callable[[list[int]], list[int]]
"""Returns those of some ids that are to be listed."""
HEAVY = ("body", "headers_text", "error")
"""Columns that only the page of one message needs."""


class Walk:
    """A walk over the claim index of one database, which remembers what is in use."""

    def __init__(self, using: str) -> None:
        self.using = using
        self._found: dict[tuple[str, str | None, int], list[int]] = {}

    @cached_property
    def queues(self) -> list[str]:
        """The queues that have messages."""
        return sorted({each.queue for each in self._ranges})

    @cached_property
    def _ranges(self) -> list[Range]:
        return ranges_in_use(session_of(self.using))

    def ids(self, state: StateWords, queue: str | None, *, limit: int) -> list[int]:
        """Return up to ``limit`` ids of messages in this state, queue by queue, highest priority first."""
        place = (state.name, queue, limit)
        if place not in self._found:
            self._found[place] = self._find(state, queue, limit)
        return self._found[place]

    def _find(self, state: StateWords, queue: str | None, limit: int) -> list[int]:
        ranges = self._ranges if queue is None else [each for each in self._ranges if each.queue == queue]
        return first_ids(session_of(self.using), state.name, ranges, limit=limit)

    def ids_by_search(self, text: str, queue: str | None, *, limit: int) -> list[int]:
        """Return ids of the message with this id, and of those with this key, newest first in each queue."""
        found: list[int] = []
        number = typed_whole(text, 0, MAX_ID)
        if number is not None:
            found += Message.objects.using(self.using).filter(pk=number).values_list("id", flat=True)
        hashes = []
        for name in self.queues if queue is None else [queue]:
            with suppress(InvalidMessage):  # people search for anything; no message has this key
                hashes.append(hash_of_key(name, text))
        return list(dict.fromkeys([*found, *ids_of_keys(session_of(self.using), hashes, limit=limit)]))[:limit]


def walk_of(request: HttpRequest, using: str) -> Walk:
    """Return the walk that belongs to this request, so that one page reads the queues once."""
    walk: Walk | None = getattr(request, "_dbqueue_walk", None)
    if walk is None or walk.using != using:
        walk = Walk(using)
        request._dbqueue_walk = walk  # type: ignore[attr-defined]
    return walk


class BoundedChangeList(ChangeList, ABC):
    """A change list over ids found by bounded reads; subclasses define which."""

    ids: list[int]
    heavy: tuple[str, ...] = HEAVY
    """Columns that the list doesn't show, and doesn't read."""

    @abstractmethod
    def find_ids(self, request: HttpRequest) -> list[int]:
        """Return up to LIST_CAP + 1 ids, in the order of the list."""

    def get_queryset(self, request: HttpRequest, *_: object, **__: object) -> QuerySet[Any]:
        self.filter_specs, self.has_filters, odd, _duplicates, self.has_active_filters = self.get_filters(request)
        self.clear_all_filters_qs = self.get_query_string(remove=list(self.get_filters_params()))
        if odd:
            raise IncorrectLookupParameters(", ".join(odd))
        self.ids = self.find_ids(request)
        return self.root_queryset.defer(*self.heavy).filter(pk__in=self.ids[:LIST_CAP])

    def get_results(self, _request: HttpRequest) -> None:
        self.result_count = Capped(len(self.ids), LIST_CAP)
        self.paginator = Paginator(self.ids[:LIST_CAP], self.list_per_page)
        self.multi_page = self.paginator.num_pages > 1
        try:
            ids = self.paginator.page(self.page_num).object_list
        except InvalidPage as error:
            raise IncorrectLookupParameters from error
        rows = self.root_queryset.defer(*self.heavy).in_bulk(ids)
        self.result_list = [rows[pk] for pk in ids if pk in rows]
        self.show_full_result_count = self.can_show_all = False
        self.full_result_count = self.result_count  # so that the search form shows no total
        self.show_admin_actions = bool(self.result_list)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a list of messages was asked for."""

    state: StateWords | None
    queue: str | None
    text: str

    def ids(self, walk: Walk, kept: Kept, *, limit: int) -> tuple[StateWords | None, list[int]]:
        """Return the state that is listed, and up to ``limit`` ids, of which ``kept`` has chosen.

        Stuck messages need attention first: without a state, the list opens with them. A search covers every state.
        """
        if self.text:
            ids = walk.ids_by_search(self.text, self.queue, limit=limit)
            if self.state is not None:
                stands = Message.objects.using(walk.using).in_state(self.state.name, self.queue)
                those = set(stands.filter(pk__in=ids).values_list("id", flat=True))
                ids = [pk for pk in ids if pk in those]
            return self.state, kept(ids)
        if self.state is None and (stuck := kept(walk.ids(WORDS["stuck"], self.queue, limit=limit))):
            return WORDS["stuck"], stuck
        state = self.state or WORDS["ready"]
        return state, kept(walk.ids(state, self.queue, limit=limit))


class MessageChangeList(BoundedChangeList):
    """One state of one queue or of all; with a search, every state."""

    state: StateWords | None
    """The state that is listed; None while a search covers all of them."""
    queue: str | None
    task: str | None
    """The task whose messages are listed; None for all."""
    failure: int | None
    """The failure group whose dead messages are listed; None for all."""
    has_older = False
    """Whether the failure group has older events, which were not searched for its dead messages."""
    is_cut = False
    """Whether there are messages that were not compared with the task's name."""

    @property
    def covers_all(self) -> bool:
        """Whether it lists all of a state, of one queue or of all, and not only some of them."""
        return self.state is not None and not self.query.strip() and self.task is None and self.failure is None

    def find_ids(self, request: HttpRequest) -> list[int]:
        chosen = {spec.parameter_name: spec.value() for spec in self.filter_specs}  # type: ignore[attr-defined]
        self.queue, self.task = chosen.get("queue"), chosen.get("task")
        self.failure = int(chosen["failure"]) if chosen.get("failure") else None
        if self.failure is not None:
            return self._of_failure(request, self.failure)
        wanted = Wanted(WORDS.get(chosen.get("state") or ""), self.queue, self.query.strip())
        walk = walk_of(request, self.root_queryset.db)
        self.state, ids = wanted.ids(walk, self._of_task, limit=reach(self.task))
        return ids

    def _of_failure(self, request: HttpRequest, failure: int) -> list[int]:
        self.state = WORDS["dead"]
        if not request.user.has_perm("django_dbqueue.view_failure"):
            return []
        ids, self.has_older = dead_messages(session_of(self.root_queryset.db), failure, LIST_CAP + 1)
        if not self.query.strip():
            return ids
        walk = walk_of(request, self.root_queryset.db)
        found = set(walk.ids_by_search(self.query.strip(), None, limit=LIST_CAP + 1))
        return [pk for pk in ids if pk in found]

    def _of_task(self, ids: list[int]) -> list[int]:
        if self.task is None:
            return ids
        found = with_task(self.root_queryset.db, ids[:SEARCHED], self.task, limit=LIST_CAP + 1)
        self.is_cut = len(ids) > SEARCHED and len(found) <= LIST_CAP
        return found


def reach(task: str | None) -> int:
    """Return how many ids a list walks over: more than it shows, where it leaves out what is another task."""
    return (LIST_CAP if task is None else SEARCHED) + 1
