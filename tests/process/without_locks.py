"""The tests' settings, where workers hold no named locks: the server's list of sessions says who lives."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

DBQUEUE = {"SESSION_LOCKS": False}
