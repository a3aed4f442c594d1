"""The tests' settings with a second database, of a vendor that the queue doesn't know."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

DATABASES["other"] = {"ENGINE": "tests.process.other_vendor", "NAME": ":memory:"}
