"""Charts drawn on the server: an SVG of bars, without scripts and inline styles, readable without colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 960, 160
"""In the SVG's own units; the page scales it."""
_GAP = 0.2
"""The share of a bar's place that stays free."""


class Bar(NamedTuple):
    """A bar, its lower part set off, and what both mean in words."""

    whole: float
    part: float
    words: str


def bars(values: Sequence[Bar], *, caption: str) -> SafeString:
    """Return a figure of bars from left to right; the highest one has the full height."""
    top = max((value.whole for value in values), default=0) or 1
    step = WIDTH / max(len(values), 1)
    drawn = format_html_join(
        "", "{}", ((_bar(value, number * step, step, top),) for number, value in enumerate(values))
    )
    return format_html(
        '<figure class="dbqueue-chart"><figcaption>{}</figcaption>'
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}" preserveAspectRatio="none">{}</svg></figure>',
        caption,
        WIDTH,
        HEIGHT,
        caption,
        drawn,
    )


def _bar(value: Bar, left: float, step: float, top: float) -> SafeString:
    width = f"{step * (1 - _GAP):.2f}"
    whole, part = (HEIGHT * amount / top for amount in (value.whole, value.part))
    return format_html(
        '<g><title>{}</title><rect class="dbqueue-bar" x="{}" y="{}" width="{}" height="{}"/>'
        '<rect class="dbqueue-bar-part" x="{}" y="{}" width="{}" height="{}"/></g>',
        value.words,
        *(f"{left:.2f}", f"{HEIGHT - whole:.2f}", width, f"{whole:.2f}"),
        *(f"{left:.2f}", f"{HEIGHT - part:.2f}", width, f"{part:.2f}"),
    )
