"""``path("metrics", metrics)``."""

from __future__ import annotations

import logging

from django.db import Error
from django.http import HttpRequest, HttpResponse

from django_dbqueue.contrib.access import for_monitors
from django_dbqueue.contrib.openmetrics.exposition import CONTENT_TYPE, exposition
from django_dbqueue.contrib.openmetrics.figures import families, figures
from django_dbqueue.models import Message
from django_dbqueue.models.aliases import db_alias

logger = logging.getLogger("django_dbqueue")


def _without_database() -> HttpResponse:
    return HttpResponse("The database can't be read.\n", content_type="text/plain", status=503)


@for_monitors(without_database=_without_database)
def metrics(request: HttpRequest) -> HttpResponse:  # noqa: ARG001
    """Show the figures of all queues; 503 if the database can't be read."""
    alias = db_alias(Message)
    try:
        page = exposition(families(figures(alias)))
    except Error:
        logger.exception("the database %r can't be read for a scrape", alias)
        return _without_database()
    return HttpResponse(page, content_type=CONTENT_TYPE)
