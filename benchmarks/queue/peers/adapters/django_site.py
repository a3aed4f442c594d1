"""The smallest Django that a peer's app runs in, for the peers that are one."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import unquote

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from benchmarks.queue.peers.adapters.adapter import server
from benchmarks.queue.peers.conditions import DEFAULT, LOGGING

_ENGINES = {"mysql": "django.db.backends.mysql", "postgres": "django.db.backends.postgresql"}


def configure(*apps: str, **more: Any) -> None:
    settings.configure(**settings_of(*apps, **more))
    django.setup()


def settings_of(*apps: str, **more: Any) -> dict[str, Any]:
    """For a peer whose processes read a module of settings each."""
    return {
        "SECRET_KEY": "benchmarks",
        "USE_TZ": True,
        "INSTALLED_APPS": ["django.contrib.contenttypes", *apps],
        "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
        "DATABASES": _databases(),
        **({} if os.environ.get(LOGGING) == DEFAULT else {"LOGGING_CONFIG": None}),
        **more,
    }


def _databases() -> dict[str, dict[str, Any]]:
    """None for a peer on Redis."""
    url = server()
    if url.scheme == "redis":
        return {}
    return {
        "default": {
            "ENGINE": _ENGINES[url.scheme],
            "NAME": url.path.lstrip("/"),
            "HOST": url.hostname,
            "PORT": url.port,
            "USER": unquote(url.username or ""),
            "PASSWORD": unquote(url.password or ""),
            "CONN_MAX_AGE": None,
        }
    }


def migrate() -> None:
    call_command("migrate", verbosity=0)


def count(sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])
