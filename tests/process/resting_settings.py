"""For workers whose children rest soon."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.resting_app"]
SELDOM = 60.0
"""Seconds between the questions of workers that hear notices: so many that their rows show it."""
