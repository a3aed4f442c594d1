"""The tests' settings with Django's pool of connections, which PostgreSQL has."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

DATABASES["default"]["OPTIONS"] |= {"pool": {"min_size": 2, "max_size": 4, "timeout": 5}}
