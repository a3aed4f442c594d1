"""The tests' settings, in a project whose admin has a theme: DBQUEUE_TEST_THEME says whose."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = list(dict.fromkeys(["django_dbqueue", os.environ["DBQUEUE_TEST_THEME"], *INSTALLED_APPS]))
ALLOWED_HOSTS = ["127.0.0.1"]
# By default it asks another site for letters, and doesn't follow a dark screen.
JAZZMIN_SETTINGS = {"use_google_fonts_cdn": False}
JAZZMIN_UI_TWEAKS = {"default_theme_mode": "auto"}
