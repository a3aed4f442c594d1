"""For workers whose project keeps log lines in memory, and others that mail errors to ADMINS as Django does."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403

if "DBQUEUE_TEST_MAILS" in os.environ:
    ADMINS = [("Ann", "ann@example.com")]
    EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    EMAIL_FILE_PATH = os.environ["DBQUEUE_TEST_MAILS"]
else:
    LOGGING = {
        "version": 1,
        "formatters": {"plain": {"format": "%(levelname)s %(message)s"}},
        "handlers": {
            "console": {"class": "logging.StreamHandler", "formatter": "plain"},
            "memory": {
                "class": "logging.handlers.MemoryHandler",
                "capacity": 10_000,
                "flushLevel": 100,
                "target": "console",
            },
        },
        "loggers": {"django_dbqueue": {"handlers": ["memory"], "level": "INFO"}},
    }
