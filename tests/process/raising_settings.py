"""For workers whose project has a logging handler that raises, and one on standard error behind it."""

from __future__ import annotations

import logging

from tests.settings import *  # noqa: F403


class Raising(logging.Handler):
    """Doesn't take care of its own errors."""

    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError(f"no log server for {record.name}")


LOGGING = {
    "version": 1,
    "handlers": {"raising": {"class": "tests.process.raising_settings.Raising"}},
    "loggers": {"django_dbqueue": {"handlers": ["raising"], "level": "DEBUG"}},
}
