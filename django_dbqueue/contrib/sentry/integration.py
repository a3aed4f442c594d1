"""What Sentry's SDK sets up, once in a process; the project's models are not there yet."""

from __future__ import annotations

from typing import Any

import sentry_sdk
from sentry_sdk.integrations import Integration

from django_dbqueue import hooks, signals
from django_dbqueue.contrib.sentry import deaths
from django_dbqueue.contrib.sentry.sentry_instrument import SentryInstrument


class DBQueueIntegration(Integration):
    """``check_ins``, ``spans`` and ``deaths`` choose what is sent; all of it by default."""

    identifier = "django_dbqueue"

    def __init__(self, *, check_ins: bool = True, spans: bool = True, deaths: bool = True) -> None:
        self.check_ins = check_ins
        self.spans = spans
        self.deaths = deaths

    @staticmethod
    def setup_once() -> None:
        """Listen, for the life of this process."""
        hooks.add(SentryInstrument(chosen))
        signals.message_died.connect(_died, dispatch_uid="django_dbqueue.sentry")
        sentry_sdk.scope.add_global_event_processor(_once)


def chosen() -> DBQueueIntegration | None:
    """Return the integration of the client that is active here, as its project has set it up; None if it has not."""
    found = sentry_sdk.get_client().get_integration(DBQueueIntegration)
    return found if isinstance(found, DBQueueIntegration) else None


def _died(*, queue: str, message_id: int, error: str, using: str | None = None, **_: object) -> None:
    integration = chosen()
    if integration is not None:
        deaths.report(queue, message_id, error, event=integration.deaths, check_in=integration.check_ins, using=using)


def _once(event: Any, _hint: dict[str, Any]) -> Any:
    integration = chosen()
    return None if integration is not None and integration.deaths and deaths.is_reported(event) else event
