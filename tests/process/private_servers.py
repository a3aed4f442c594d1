"""Servers that a test starts for itself, with the queue's tables, to stop, crash or demote them."""

from __future__ import annotations

import os
import subprocess
import sys

from django.conf import settings

from tests.servers.mariadb import MariaDB
from tests.servers.mysql import MySQL
from tests.servers.postgres import Postgres
from tests.servers.private import PrivateServer

OURS: dict[str, tuple[type[PrivateServer], str]] = {"mariadb": (MariaDB, "mysql"), "postgres": (Postgres, "postgres")}
"""The servers that tests can start, and a database that each begins with."""
if settings.TEST_DATABASE == "mysql" and MySQL.is_installed():
    OURS["mysql"] = (MySQL, "mysql")


def django(environment: dict[str, str], code: str) -> str:
    program = f"import django; django.setup()\nfrom django_dbqueue.models import Message\n{code}"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def prepared(server: PrivateServer) -> dict[str, str]:
    """The environment of processes that work on the server's database, with its tables made."""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DBQUEUE_TEST_URL": server.url,
        "DBQUEUE_TEST_NAME": "restarted",
        "PYTHONUNBUFFERED": "1",
    }
    database = OURS[settings.TEST_DATABASE][1]
    django(
        environment | {"DBQUEUE_TEST_NAME": database},
        "from django.db import connection; connection.cursor().execute('CREATE DATABASE restarted')",
    )
    django(environment, "from django.core.management import call_command; call_command('migrate', verbosity=0)")
    return environment
