"""A progress bar for end users; the dashboard on the app's own page in the admin, and the format of its times.

Django imports this for every template of a project, so what needs the admin is imported where it is used: the project
may have none.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import template
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from django_dbqueue.insight.series import Point

register = template.Library()


@register.inclusion_tag("django_dbqueue/progress.html")
def dbqueue_progress(
    subject: Any, label: str | None = None, expires_in: float | timedelta | None = None
) -> dict[str, object]:
    """Show how far a flow or a message is; ``progress.js`` keeps it up to date until ``expires_in``, else for a day.

    Raises what ``progress_url`` raises.
    """
    from django_dbqueue.progress.how_far import how_far
    from django_dbqueue.progress.links import DAY, followed_of, progress_url

    url = progress_url(subject, expires_in=DAY if expires_in is None else expires_in)
    return {"seen": how_far(followed_of(subject)), "url": url, "label": label or _("Progress")}


@register.inclusion_tag("admin/django_dbqueue/dashboard.html", takes_context=True)
def dbqueue_dashboard(context: Any) -> dict[str, object]:
    """Show the dashboard to users who may see queues; nothing to others."""
    from django_dbqueue.admin.dashboard import dashboard

    return dashboard(context["request"])


@register.inclusion_tag("admin/django_dbqueue/shortcuts.html", takes_context=True)
def dbqueue_shortcuts(context: Any) -> dict[str, object]:
    """Show how many messages are stuck, dead and running to users who may see messages; nothing to others."""
    from django_dbqueue.admin.dashboard import shortcuts

    return shortcuts(context["request"])


@register.filter
def dbqueue_utc(moment: datetime) -> str:
    """Return a moment in UTC."""
    from django_dbqueue.admin import display

    return display.utc(moment)


@register.filter
def dbqueue_until(end: datetime) -> str:
    """Say until when a pause lasts."""
    from django_dbqueue.admin import display

    return display.until(end)


@register.filter
def dbqueue_breakable(name: str) -> str:
    """Return a queue's name, which may break between its parts."""
    from django_dbqueue.admin import display

    return display.breakable(name)


@register.filter
def dbqueue_times(point: Point, name: str) -> str:
    """Return the median and the 95th percentile of a point's ``wait`` or ``run``."""
    from django_dbqueue.admin import display

    return display.seconds(getattr(point, f"{name}_p50"), getattr(point, f"{name}_p95"))
