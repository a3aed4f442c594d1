"""The smallest Django that a peer's app runs in, for the peers that are one."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from benchmarks.queue.peers.adapters.adapter import server

_ENGINES = {"mysql": "django.db.backends.mysql", "postgres": "django.db.backends.postgresql"}


def configure(*apps: str, **more: Any) -> None:
    url = server()
    settings.configure(
        SECRET_KEY="benchmarks",
        USE_TZ=True,
        INSTALLED_APPS=["django.contrib.contenttypes", *apps],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        LOGGING_CONFIG=None,
        DATABASES={
            "default": {
                "ENGINE": _ENGINES[url.scheme],
                "NAME": url.path.lstrip("/"),
                "HOST": url.hostname,
                "PORT": url.port,
                "USER": unquote(url.username or ""),
                "PASSWORD": unquote(url.password or ""),
                "CONN_MAX_AGE": None,
            }
        },
        **more,
    )
    django.setup()


def migrate() -> None:
    call_command("migrate", verbosity=0)


def count(sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])
