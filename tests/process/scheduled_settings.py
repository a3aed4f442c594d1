"""For workers that have schedules: ``DBQUEUE["SCHEDULES"]`` comes from the environment, and one app is added."""

from __future__ import annotations

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.scheduled_app"]
DBQUEUE = {"SCHEDULES": json.loads(os.environ["DBQUEUE_TEST_SCHEDULES"])}
