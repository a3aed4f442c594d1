"""A database of this run's own on each server, with the queue's tables, and Django told of all of them."""

from __future__ import annotations

import secrets
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connections

from tests.servers.suite import server_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextmanager
def prepared(databases: Sequence[str]) -> Iterator[None]:
    """Django's aliases are named as the databases are; their tables are there, and gone at the end."""
    import environ

    name = f"bench_dbqueue_{secrets.token_hex(4)}"
    with ExitStack() as stack:
        urls = {each: stack.enter_context(server_url(each)) for each in databases}
        settings.configure(
            DATABASES={"default": {}} | {each: _settings(environ.Env.db_url_config(url)) for each, url in urls.items()},
            INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django_dbqueue"],
            DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
            USE_TZ=True,
        )
        django.setup()
        for each in databases:
            is_postgres = connections[each].vendor == "postgresql"
            _execute(each, f"CREATE DATABASE {name}{'' if is_postgres else ' CHARACTER SET utf8mb4'}")
            own = connections[each].settings_dict["NAME"]
            _go_to(each, name)
            stack.callback(_execute, each, f"DROP DATABASE {name}{' WITH (FORCE)' if is_postgres else ''}")
            stack.callback(_go_to, each, own)
            call_command("migrate", database=each, verbosity=0)
        yield


def _go_to(alias: str, database: str) -> None:
    connections[alias].close()
    connections[alias].settings_dict["NAME"] = database


def _settings(server: dict[str, Any]) -> dict[str, Any]:
    if server["ENGINE"].endswith("postgresql"):
        return server
    options = {"charset": "utf8mb4", "init_command": "SET sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')"}
    return server | {"OPTIONS": options}


def _execute(alias: str, sql: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute(sql)
