"""For workers that run with DEBUG, where Django keeps what was sent to the database."""

from __future__ import annotations

from tests.settings import *  # noqa: F403

DEBUG = True
