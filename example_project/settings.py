"""Settings of the example project, read from the environment by django-environ.

`DATABASE_URL` selects the database (default: SQLite in `db.sqlite3` beside `manage.py`), `SECRET_KEY` and
`DEBUG` are what they are everywhere. `DEBUG` is on unless it says otherwise, because this is an example; then
the secret key may be left out. Unless `ALLOWED_HOSTS` says more, the site answers to this machine only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import environ

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()

DEBUG = env.bool("DEBUG", default=True)
SECRET_KEY = env.str("SECRET_KEY", default="insecure-and-for-the-example-only") if DEBUG else env.str("SECRET_KEY")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])

INSTALLED_APPS = [
    "django_dbqueue",  # before the admin, whose front page then shows what is stuck
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "example_project.flights",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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
            ],
        },
    },
]

ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"
ASGI_APPLICATION = "example_project.asgi.application"

# What a queue needs from each server; anything that the URL itself says (`?read_timeout=5`) wins.
DATABASE_OPTIONS: dict[str, dict[str, Any]] = {
    # Immediate: a transaction that will write says so when it begins and waits its turn, instead of failing
    # with "database is locked" half way. FULL: a commit in WAL survives a power cut.
    "sqlite3": {
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL",
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
    },
    # The timeouts let a worker notice a server that vanished without closing its connection.
    "mysql": {
        "charset": "utf8mb4",
        "sql_mode": "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
        "isolation_level": "read committed",
        "connect_timeout": 10,
        "read_timeout": 60,
        "write_timeout": 60,
    },
    "postgresql": {
        "connect_timeout": 10,
        "tcp_user_timeout": 60_000,
    },
}

default_database: dict[str, Any] = env.db_url("DATABASE_URL", default=f"sqlite:///{BASE_DIR / 'db.sqlite3'}")
default_database["OPTIONS"] = {
    **DATABASE_OPTIONS.get(default_database["ENGINE"].rpartition(".")[2], {}),
    **default_database.get("OPTIONS", {}),
}
# Without an age, Django closes a consumer's connection after each message; a new one costs PostgreSQL far more
# than most messages do. The health check is for servers that went away meanwhile.
default_database.setdefault("CONN_MAX_AGE", 60)
default_database.setdefault("CONN_HEALTH_CHECKS", True)
DATABASES = {"default": default_database}

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"

STATIC_URL = "static/"

# The departures of one aircraft are a group: a worker takes up to ten along, and handles them in order.
DBQUEUE: dict[str, Any] = {"DATABASE": "default", "QUEUES": {"departures": {"group_batch": 10}}}

# Off in bin/demo, which would say 516 times what is meant to happen.
if not env.bool("LOG_EXPECTED_FAILURES", default=True):
    LOGGING: dict[str, Any] = {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"unexpected": {"()": "example_project.flights.log_filter.Unexpected"}},
        "loggers": {"django_dbqueue": {"filters": ["unexpected"]}},
    }
