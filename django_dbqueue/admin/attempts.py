"""The failed attempts of a task on its message's page, each with its traceback."""

from __future__ import annotations

from typing import Final

from django.utils import timezone
from django.utils.dateformat import format as format_date
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_dbqueue.admin import display
from django_dbqueue.admin.lifeline import Shown, label_of
from django_dbqueue.models import MessageEvent
from django_dbqueue.statements.events_sql import ATTEMPTS

MOST: Final = 10
"""Attempts that are shown: the latest."""


def attempts_of(message_id: int, *, using: str, shown: Shown) -> SafeString | None:
    """Return the failed attempts of a task, the latest first; None if there are none."""
    rows = MessageEvent.objects.using(using).filter(message_id=message_id, kind__in=ATTEMPTS)
    found = list(rows.order_by("-id")[: MOST + 1])
    if not found:
        return None
    blocks: list[str] = [
        display.block(shown(event.detail or "") or display.NOTHING, _title(event)) for event in found[:MOST]
    ]
    if len(found) > MOST:
        blocks.append(_("Earlier attempts are not shown."))
    return format_html_join("", '<div class="dbqueue-attempt">{}</div>', ((block,) for block in blocks))


def _title(event: MessageEvent) -> str:
    moment = timezone.template_localtime(event.at)  # type: ignore[attr-defined]  # as the page's other moments are
    parts = [format_date(moment, "Y-m-d H:i:s"), label_of(event.kind)]
    if event.read_count:
        parts.insert(0, _("delivery %(number)d") % {"number": event.read_count})
    if event.worker:
        parts.append(_("worker %(worker)s") % {"worker": event.worker})
    return " · ".join(parts)
