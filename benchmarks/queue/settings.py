"""Django on the one database of a run, in each of its processes.

DBQUEUE_BENCH_DATABASE  mariadb, mysql, postgres or sqlite
DBQUEUE_BENCH_URL       the database, as a URL
DBQUEUE_BENCH_SETTINGS  the setting DBQUEUE, as JSON; may be left out
DBQUEUE_BENCH_LOGGING   `default` for Django's own logging; may be left out
"""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from typing import Any, Final

import environ

from benchmarks.queue.peers.conditions import DEFAULT
from benchmarks.queue.peers.conditions import LOGGING as LOGS

DBQUEUE_SETTINGS: Final = "DBQUEUE_BENCH_SETTINGS"
_MYSQL: Final = {
    "charset": "utf8mb4",
    "init_command": "SET sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')",
}
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "mariadb": _MYSQL,
    "mysql": _MYSQL,
    "postgres": {},
    "sqlite": {
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL",
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
    },
}

DATABASES = {
    "default": environ.Env.db_url_config(os.environ["DBQUEUE_BENCH_URL"])
    | {"OPTIONS": _OPTIONS[os.environ["DBQUEUE_BENCH_DATABASE"]]}
}
DBQUEUE = json.loads(os.environ.get(DBQUEUE_SETTINGS, "{}"))
TASKS = {"default": {"BACKEND": "django_dbqueue.tasks.DBQueueBackend", "QUEUES": ["bench-tasks"]}}
_QUIET: Final = {name: {"level": "WARNING"} for name in ("django.tasks", "django_tasks")}
"""As docs/tasks.md advises where speed matters: by default Django makes a record of each start and end of a task."""
LOGGING = {"version": 1, "loggers": {} if os.environ.get(LOGS) == DEFAULT else _QUIET}
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django_dbqueue",
    "benchmarks.queue",  # its consumers
    *([] if find_spec("django.tasks") else ["django_tasks"]),
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = "for benchmarks only"
USE_TZ = True
