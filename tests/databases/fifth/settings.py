"""The suite's settings, on the fifth server."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

TEST_DATABASE = "fifth"
DATABASES["default"] |= {"ENGINE": "tests.databases.fifth"}
