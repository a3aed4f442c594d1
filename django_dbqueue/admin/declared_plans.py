"""The schedules that the project's code declares, as far as this process can read it."""

from __future__ import annotations

import logging

from django_dbqueue.consumers import registry
from django_dbqueue.schedules.declarations import Plan

_log = logging.getLogger("django_dbqueue")


def declared_plans() -> dict[str, Plan]:
    """Return them by name; none if the consumers can't be imported here, or a schedule can't be read."""
    try:
        registry.autodiscover()
        return {plan.name: plan for plan in registry.plans()}
    except Exception:
        _log.warning("not all schedules of the code could be read", exc_info=True)
        return {}
