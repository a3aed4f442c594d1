"""The dashboard on the app's own page in the admin, and the format of its moments and times."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template

from django_dbqueue.admin import display
from django_dbqueue.admin.dashboard import dashboard
from django_dbqueue.insight.series import Point

register = template.Library()


@register.inclusion_tag("admin/django_dbqueue/dashboard.html", takes_context=True)
def dbqueue_dashboard(context: Any) -> dict[str, object]:
    """Show the dashboard to users who may see queues; nothing to others."""
    return dashboard(context["request"])


@register.filter
def dbqueue_utc(moment: datetime) -> str:
    """Return a moment in UTC."""
    return display.utc(moment)


@register.filter
def dbqueue_times(point: Point, name: str) -> str:
    """Return the median and the 95th percentile of a point's ``wait`` or ``run``."""
    return display.seconds(getattr(point, f"{name}_p50"), getattr(point, f"{name}_p95"))
