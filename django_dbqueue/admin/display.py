"""How a message is shown: badges, durations, and text that somebody else wrote, escaped and cut."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue.admin.states import State
from django_dbqueue.counts import grouped
from django_dbqueue.insight.overview import span as span
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.models.worker import ALIVE_WITHIN

SHOWN = 32 * 1024
"""Characters of a payload, of headers or of an error that a page shows."""
NOTHING = "–"


def badge(kind: str, symbol: str, label: object) -> SafeString:
    """Return a badge that conveys by word and symbol what it conveys by colour."""
    return format_html(
        '<span class="dbqueue-badge dbqueue-{}"><span aria-hidden="true">{}</span> {}</span>',
        kind,
        symbol,
        label,
    )


def state_badge(state: State) -> SafeString:
    """Return the badge of a state."""
    return badge(state.name, state.symbol, state.label)


def beat_badge(beat_at: datetime, now: datetime) -> SafeString:
    """Return the badge of a worker: beating or silent."""
    if now - beat_at <= ALIVE_WITHIN:
        return badge("alive", "♥", _("beats"))
    return badge("silent", "✕", _("silent"))


def ago(length: timedelta) -> str:
    """Return how long ago something was."""
    return _("%(span)s ago") % {"span": span(length)}


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


def what_next(message: Any, state: State, now: datetime) -> str:
    """Say when it is due, how much of its lease is left, or how long ago it ended."""
    if state.name in {"done", "dead"}:
        return ago(now - message.finished_at)
    if state.name == "stuck":
        return _("lease expired %(span)s ago") % {"span": span(now - message.lease_until)}
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


def utc(moment: datetime) -> str:
    """Return a moment in UTC, to the minute."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def seconds(*values: float | None) -> str:
    """Return times in seconds with three decimal places, or a dash if nothing was measured."""
    return " · ".join(NOTHING if each is None else f"{each:.3f}" for each in values)
