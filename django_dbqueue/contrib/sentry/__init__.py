"""Sentry (extra ``sentry``): check-ins of schedules, spans of the Queues page, one event for each death.

``sentry_sdk.init(..., integrations=[DBQueueIntegration()])``
"""

from __future__ import annotations

from django_dbqueue.contrib.sentry.integration import DBQueueIntegration

__all__ = ["DBQueueIntegration"]
