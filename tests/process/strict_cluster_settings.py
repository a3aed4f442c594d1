"""For workers on a cluster that refuses named locks."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

DATABASES["default"]["ENGINE"] = "tests.process.strict_cluster"
