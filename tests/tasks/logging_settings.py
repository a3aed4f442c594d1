"""All that is logged comes to the output: Django 6 shows no log of tasks without DEBUG."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"output": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["output"], "level": "INFO"},
}
