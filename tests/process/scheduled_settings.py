"""For workers that have a consumer with a cron of its own, and, where there are tasks, some that can't be imported."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.scheduled_app", "tests.sick_tasks_app"]
