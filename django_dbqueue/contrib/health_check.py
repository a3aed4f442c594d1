"""A check for django-health-check 4 (extra ``health``).

``HealthCheckView.as_view(checks=[("django_dbqueue.contrib.health_check.DBQueue", {"max_age": 300})])``
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from datetime import timedelta

from django.db import Error, connections
from health_check.base import HealthCheck
from health_check.exceptions import ServiceUnavailable, ServiceWarning

from django_dbqueue.contrib.health_view import Problem, health_options, problems
from django_dbqueue.insight.overview import until
from django_dbqueue.models import Message
from django_dbqueue.models.aliases import db_alias

WARNINGS = ("dead", "paused")
"""Problems that somebody should see to, while the queue continues."""


@dataclasses.dataclass
class DBQueue(HealthCheck):  # type: ignore[misc]  # it has no types
    """Whether ``queue_status --check`` finds anything wrong; ``max_age`` is in seconds."""

    queues: Collection[str] | None = None
    max_age: float | timedelta | None = None
    ignore: Collection[str] = ()

    def __post_init__(self) -> None:
        health_options(self.queues, self.max_age, self.ignore)

    def run(self) -> None:
        """Raise ServiceWarning for dead letters and paused queues, ServiceUnavailable for anything worse."""
        alias = db_alias(Message)
        connection = connections[alias]
        was_open = connection.connection is not None
        try:
            found = problems(alias, queues=self.queues, max_age=self.max_age, ignore=self.ignore)
        except Error as error:
            raise ServiceUnavailable("the queue's database can't be read") from error
        finally:
            if not was_open:  # this may be a thread that nobody tidies up after
                connection.close()
        if not found:
            return
        text = ", ".join(_words(each) for each in found)
        raise (ServiceWarning if all(each.problem in WARNINGS for each in found) else ServiceUnavailable)(text)


def _words(found: Problem) -> str:
    text = f"{found.queue}: {found.problem}"
    return text if found.paused_until is None else f"{text} {until(found.paused_until)}"
