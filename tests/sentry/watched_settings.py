"""A project that sets Sentry up in its settings, as most do."""

from __future__ import annotations

import sentry_sdk

from django_dbqueue.contrib.sentry import DBQueueIntegration
from tests.sentry.transports import File
from tests.settings import *  # noqa: F403

sentry_sdk.init(
    dsn="https://key@sentry.invalid/1",
    transport=File,
    traces_sample_rate=1.0,
    integrations=[DBQueueIntegration()],
)
