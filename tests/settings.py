"""One database per run of the suite, chosen by the environment.

DBQUEUE_TEST_DATABASE  sqlite (default), mariadb, mysql or postgres
DBQUEUE_TEST_URL       the server, as a URL (for SQLite a directory, which may be left out). `bin/test` starts
                       servers and says it
DBQUEUE_TEST_RUN       what makes the names of this run's test databases its own; drawn when not said
DBQUEUE_TEST_NAME      the test database itself, for processes that a test starts (fixture `worker_env`)
DBQUEUE_TEST_SETTINGS  the setting DBQUEUE of such processes, as JSON
DBQUEUE_TEST_TASKS     the setting TASKS of such processes, as JSON
"""

from __future__ import annotations

import json
import os
import secrets
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from tests.servers.directory import roomy_directory

TEST_DATABASE = os.environ.get("DBQUEUE_TEST_DATABASE", "sqlite")
# Kept in the environment, so that the workers of pytest-xdist belong to the same run.
TEST_RUN = os.environ.setdefault("DBQUEUE_TEST_RUN", secrets.token_hex(4))
TEST_NAME = os.environ.get("DBQUEUE_TEST_NAME")


def _server() -> dict[str, Any]:
    url = os.environ.get("DBQUEUE_TEST_URL")
    if not url:
        raise ImproperlyConfigured(
            f"DBQUEUE_TEST_DATABASE is {TEST_DATABASE}, but DBQUEUE_TEST_URL names no server. "
            f"Run `bin/test --only {TEST_DATABASE}`, which starts one."
        )
    server: dict[str, Any] = environ.Env.db_url_config(url)
    return server | {"TEST": {"NAME": f"test_dbqueue_{TEST_RUN}"}}


def _sqlite() -> dict[str, Any]:
    url = os.environ.get("DBQUEUE_TEST_URL")
    directory = Path(urlsplit(url).path) if url else roomy_directory()
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "OPTIONS": {
            "init_command": "PRAGMA journal_mode=WAL",
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
        },
        # A file, because several processes and threads share it.
        "TEST": {"NAME": str(directory / f"test_dbqueue_{TEST_RUN}.sqlite3")},
    }


def _mysql() -> dict[str, Any]:
    options = {
        "charset": "utf8mb4",
        "connect_timeout": 10,
        "read_timeout": 120,
        "write_timeout": 120,
        "init_command": "SET sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')",
    }
    server = _server()
    return server | {"OPTIONS": options, "TEST": server["TEST"] | {"CHARSET": "utf8mb4"}}


def _postgres() -> dict[str, Any]:
    return _server() | {"OPTIONS": {"connect_timeout": 10}}


_BY_NAME = {"sqlite": _sqlite, "mariadb": _mysql, "mysql": _mysql, "postgres": _postgres}
if TEST_DATABASE not in _BY_NAME:
    raise ImproperlyConfigured(f"DBQUEUE_TEST_DATABASE is {TEST_DATABASE!r}; it can be {', '.join(_BY_NAME)}.")

if TEST_DBQUEUE := os.environ.get("DBQUEUE_TEST_SETTINGS"):
    DBQUEUE = json.loads(TEST_DBQUEUE)

if TEST_TASKS := os.environ.get("DBQUEUE_TEST_TASKS"):
    TASKS = json.loads(TEST_TASKS)

DATABASES = {"default": _BY_NAME[TEST_DATABASE]()}
if TEST_NAME:
    DATABASES["default"]["NAME"] = TEST_NAME

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_dbqueue",
    "example_project.flights",  # its story is tested with the rest
    # Apps that exist for the tests alone follow here.
    "tests.consumers_app",
    "tests.bank_app",
]
if find_spec("django.tasks") is None:
    INSTALLED_APPS.append("django_tasks")
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
SECRET_KEY = "for tests only"
USE_TZ = True
# Not UTC, so that a clock that forgets its zone is found out.
TIME_ZONE = "America/New_York"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
