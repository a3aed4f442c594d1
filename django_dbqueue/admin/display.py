"""How a message is shown: badges, durations, and text that somebody else wrote, escaped and cut."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from django.contrib import admin
from django.utils.formats import date_format
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import is_aware, localtime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue.admin.state_words import StateWords
from django_dbqueue.insight.overview import until as until
from django_dbqueue.models import ArchivedMessage, Message, Queue
from django_dbqueue.models.worker_row import Worker
from django_dbqueue.states.counts import grouped
from django_dbqueue.states.spans import span as span

SHOWN = 32 * 1024
"""Characters of a payload, of headers or of an error that a page shows."""
NOTHING = "–"
_BETWEEN_PARTS = re.compile(r"([._:/-])(?=\w)")


def badge(kind: str, symbol: str, label: object) -> SafeString:
    """Return a badge that conveys by word and symbol what it conveys by colour."""
    return format_html(
        '<span class="dbqueue-badge dbqueue-{}"><span aria-hidden="true">{}</span> {}</span>',
        kind,
        symbol,
        label,
    )


def state_badge(state: StateWords) -> SafeString:
    """Return the badge of a state."""
    return badge(state.name, state.symbol, state.label)


def claims_of(queue: Queue) -> SafeString:
    """Return the badge that says whether a queue is open, and until when its pause lasts, if it has an end."""
    if not queue.is_paused:
        return badge("open", "▶", _("open"))
    paused = badge("paused", "❚❚", _("paused"))
    if queue.paused_until is None:
        return paused
    return format_html('{} <span class="dbqueue-note">{}</span>', paused, until(queue.paused_until))


def beat_badge(worker: Worker, now: datetime) -> SafeString:
    """Return the badge of a worker: beating or silent."""
    if worker.beats(now):
        return badge("alive", "♥", _("beats"))
    return badge("silent", "✕", _("silent"))


def ago(length: timedelta) -> str:
    """Return how long ago something was."""
    return _("%(span)s ago") % {"span": span(length)}


def breakable(name: str) -> SafeString:
    """Return the name of a queue or of code, which a narrow column breaks between its parts and not within one."""
    return mark_safe(_BETWEEN_PARTS.sub(r"\1<wbr>", escape(name)))  # noqa: S308 # escaped


def since(moment: datetime, now: datetime) -> SafeString:
    """Return how long ago something was, and the moment itself below, to the second."""
    return format_html(
        '<span class="dbqueue-line nowrap">{}</span>'
        '<time class="dbqueue-line dbqueue-count nowrap" datetime="{}">{}</time>',
        ago(now - moment),
        moment.isoformat(),
        _to_the_second(moment),
    )


def reads(message: Message | ArchivedMessage) -> str:
    """Return the deliveries charged, and their limit."""
    if message.max_reads is None:
        return str(message.read_count)
    if message.max_reads == 0:
        return _("%(reads)d, no limit") % {"reads": message.read_count}
    return _("%(reads)d of %(limit)d") % {"reads": message.read_count, "limit": message.max_reads}


def hidden() -> str:
    """Say who may see payloads."""
    return _("Only users with the permission “Can see payloads” can see payload and headers.")


def hidden_error() -> str:
    """Say who may see the text of an error."""
    return _("The text may quote the payload. Only users with the permission “Can see payloads” can see it.")


def what_next(message: Any, state: StateWords, now: datetime) -> str:
    """Say when it is due, how much of its lease is left, or how long ago it ended."""
    if state.name in {"done", "dead"}:
        return ago(now - message.finished_at)
    if state.name == "stuck":
        return _("lease expired %(span)s ago") % {"span": span(now - message.lease_until)}
    if state.name == "waiting":
        return _("in line")
    left = span((message.lease_until or message.available_at) - now)
    if state.name == "running":
        return _("lease expires in %(span)s") % {"span": left}
    if state.name == "delayed":
        return _("due in %(span)s") % {"span": left}
    return _("due for %(span)s") % {"span": span(now - message.available_at)}


def block(text: str, note: str = "", *, size: int = 0) -> SafeString:
    """Return text as a separate block: escaped, as wide as the page, cut if it is very long.

    ``size`` is the size of the whole, if ``text`` is only its beginning.
    """
    size = max(size, len(text))
    if size > SHOWN:
        note = " ".join(
            filter(
                None,
                (
                    note,
                    ngettext(
                        "Cut off: this is only the beginning of %(size)s character.",
                        "Cut off: this is only the beginning of %(size)s characters.",
                        size,
                    )
                    % {"size": grouped(size)},
                ),
            )
        )
    label = format_html('<p class="dbqueue-note">{}</p>', note) if note else ""
    # Focusable by keyboard, since it scrolls.
    return format_html(
        '<div class="dbqueue-block">{}<pre class="dbqueue-text" tabindex="0">{}</pre></div>',
        label,
        text[:SHOWN],
    )


@cache
def moment(field: Any) -> Callable[[Any], str]:
    """Return a column of the admin that shows a model's moment to the second; Django shows minutes."""

    def shown(obj: Any) -> str:
        return time(getattr(obj, field.name))

    shown.__name__ = field.name
    return admin.display(description=field.verbose_name)(shown)


def time(value: datetime | None) -> str:
    """Return a moment to the second, where the project's times are; a dash for none."""
    if value is None:
        return NOTHING
    return format_html('<time class="nowrap" datetime="{}">{}</time>', value.isoformat(), _to_the_second(value))


def _to_the_second(value: datetime) -> str:
    return date_format(localtime(value) if is_aware(value) else value, "Y-m-d H:i:s")


def gap(length: timedelta) -> str:
    """Return the time between two events: in milliseconds below a second, and to a tenth of one below ten."""
    passed = length.total_seconds()
    if passed < 1:
        return f"{max(0.0, passed) * 1000:.0f} ms"
    return f"{passed:.1f} s" if passed < 10 else span(length)


def utc(moment: datetime) -> str:
    """Return a moment in UTC, to the minute."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def seconds(*values: float | None) -> str:
    """Return times in seconds with three decimal places, or a dash if nothing was measured."""
    return " · ".join(NOTHING if each is None else f"{each:.3f}" for each in values)
