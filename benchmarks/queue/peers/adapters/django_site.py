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


def configure(*apps: str, pool: int = 0, **more: Any) -> None:
    """Sessions persist, or where a peer's threads close them, and the driver has one, come from a pool of so many."""
    settings.configure(**settings_of(*apps, pool=pool, **more))
    django.setup()


def settings_of(*apps: str, pool: int = 0, **more: Any) -> dict[str, Any]:
    """For a peer whose processes read a module of settings each."""
    return {
        "SECRET_KEY": "benchmarks",
        "USE_TZ": True,
        "INSTALLED_APPS": ["django.contrib.contenttypes", *apps],
        "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
        "DATABASES": _databases(pool),
        **({} if os.environ.get(LOGGING) == DEFAULT else {"LOGGING_CONFIG": None}),
        **more,
    }


def _databases(pool: int) -> dict[str, dict[str, Any]]:
    """None for a peer on Redis."""
    url = server()
    if url.scheme == "redis":
        return {}
    sessions: dict[str, Any] = {"CONN_MAX_AGE": None}
    if pool and url.scheme == "postgres":
        sessions = {"CONN_MAX_AGE": 0, "OPTIONS": {"pool": {"min_size": 1, "max_size": pool}}}
    return {
        "default": {
            "ENGINE": _ENGINES[url.scheme],
            "NAME": url.path.lstrip("/"),
            "HOST": url.hostname,
            "PORT": url.port,
            "USER": unquote(url.username or ""),
            "PASSWORD": unquote(url.password or ""),
            **sessions,
        }
    }


def migrate() -> None:
    call_command("migrate", verbosity=0)


def count(sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])
