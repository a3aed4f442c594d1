"""The list of groups: paused and held ones first, then those whose first message has waited longest."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import InvalidPage, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from django_dbqueue.admin.bounded_lists import CELL_CAP, LIST_CAP, walk_of
from django_dbqueue.insight.groups import (
    GroupOverview,
    RankedGroup,
    find_groups,
    groups_named,
    is_its_lane,
    overviews,
)
from django_dbqueue.models import Group
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.counts import Capped

if TYPE_CHECKING:

    class ShownGroup(Group):
        """A group as a page has it."""

        seen: GroupOverview
        db_now: datetime


class GroupChangeList(ChangeList):
    """Paused and held ones first, then those whose first message has waited longest; with a search, those of a name."""

    result_count: Capped
    found: list[RankedGroup]
    """All that are listed, of which one page is shown."""
    is_cut = False
    """Whether there are more lanes than were looked at."""

    def get_queryset(self, request: HttpRequest, *_: object, **__: object) -> QuerySet[Group]:
        self.filter_specs, self.has_filters, odd, _duplicates, self.has_active_filters = self.get_filters(request)
        self.clear_all_filters_qs = self.get_query_string(remove=list(self.get_filters_params()))
        if odd:
            raise IncorrectLookupParameters(", ".join(odd))
        return self.root_queryset

    def get_results(self, request: HttpRequest) -> None:
        session = session_of(self.root_queryset.db)
        self.found = found = self._find(request)
        self.result_count = Capped(len(found), LIST_CAP)
        self.paginator = Paginator(found[:LIST_CAP], self.list_per_page)
        try:
            page = self.paginator.page(self.page_num).object_list
        except InvalidPage as error:
            raise IncorrectLookupParameters from error
        self.result_list = shown_groups(overviews(session, page, cap=CELL_CAP), clock(session.using))
        self.multi_page = self.paginator.num_pages > 1
        self.show_full_result_count = self.can_show_all = False
        self.full_result_count = self.result_count
        self.show_admin_actions = bool(found)

    def _find(self, request: HttpRequest) -> list[RankedGroup]:
        session = session_of(self.root_queryset.db)
        queue = next((spec.value() for spec in self.filter_specs), None)  # type: ignore[attr-defined]
        name = self.query.strip()
        if name:
            return groups_named(session, name, walk_of(request, session.using).queues if queue is None else [queue])
        search = find_groups(session, queue=queue, limit=LIST_CAP)
        self.is_cut = search.is_cut
        return search.found

    def url_for_result(self, result: Any) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return reverse(name, args=[quote(id_of(result))], current_app=self.model_admin.admin_site.name)


def id_of(group: Group) -> str:
    """Return what names a group in addresses: its queue and its name, or the lane of a row that has another's."""
    return f"{group.queue}/{group.name}" if is_its_lane(group) else str(group.lane)


def shown_groups(seen: list[GroupOverview], now: datetime) -> list[Any]:
    shown: list[Any] = []
    for each in seen:
        row: Any = each.group
        row.seen, row.db_now = each, now
        shown.append(row)
    return shown
