"""Where the histories of all sizes lie: side by side on one private server, each in a database of its own."""

from __future__ import annotations

import secrets
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import django
import environ
from django.conf import settings
from django.core.management import call_command
from django.db import connections

from benchmarks.queue.servers import RoomyMariaDB, RoomyPostgres, parent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DATABASES: Final = ("mariadb", "postgres")


class ScalePostgres(RoomyPostgres):
    def command(self) -> list[str]:
        # What it would do by itself, filling does; here it would be counted as if a job had asked for it
        return [*super().command(), "-c", "autovacuum=off", "-c", "max_wal_size=4GB"]


@contextmanager
def server(kind: str) -> Iterator[str]:
    """The URL of a server whose data lies on the disk of temporary files, gone at the end."""
    program = {"mariadb": RoomyMariaDB, "postgres": ScalePostgres}[kind]
    with program.running(parent(tmpfs=False)) as running:
        yield running.url


def alias_of(rows: int, *, in_a_lake: bool = False) -> str:
    return f"{'lake' if in_a_lake else 'rows'}_{rows}"


def url_of(alias: str) -> str:
    """The URL of an alias's database."""
    config = connections[alias].settings_dict
    scheme = "postgres" if connections[alias].vendor == "postgresql" else "mysql"
    account = ":".join(quote(config[name], safe="") for name in ("USER", "PASSWORD") if config[name])
    return f"{scheme}://{account}@{config['HOST']}:{config['PORT']}/{config['NAME']}"


@contextmanager
def databases(url: str, rows: Sequence[int], lakes: Sequence[int], *, prefix: str = "") -> Iterator[None]:
    """Make a database for each history and each lake; with a prefix of the caller's, the histories stay.

    Django's aliases are ``alias_of`` the sizes.
    """
    default = environ.Env.db_url_config(url)
    if not default["ENGINE"].endswith("postgresql"):
        strict = {"charset": "utf8mb4", "init_command": "SET sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')"}
        default = default | {"OPTIONS": strict}
    own = f"scale_{secrets.token_hex(4)}"
    kept = {alias_of(each): f"{prefix or own}_{each}" for each in rows}
    made = {alias_of(each, in_a_lake=True): f"{own}_lake_{each}" for each in lakes}
    settings.configure(
        DATABASES={"default": default} | {alias: default | {"NAME": name} for alias, name in (kept | made).items()},
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django_dbqueue"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
    )
    django.setup()
    with ExitStack() as stack:
        for alias, name in (kept | made).items():
            _create(name)
            if alias in made or not prefix:
                stack.callback(_drop, name)
            stack.callback(connections[alias].close)
            call_command("migrate", database=alias, verbosity=0)
        yield


def _create(name: str) -> None:
    is_postgres = connections["default"].vendor == "postgresql"
    there = "SELECT 1 FROM pg_database WHERE datname = %s" if is_postgres else "SHOW DATABASES LIKE %s"
    with connections["default"].cursor() as cursor:
        cursor.execute(there, (name,))
        if not cursor.fetchall():
            cursor.execute(f"CREATE DATABASE {name}{'' if is_postgres else ' CHARACTER SET utf8mb4'}")


def _drop(name: str) -> None:
    with connections["default"].cursor() as cursor:
        is_postgres = connections["default"].vendor == "postgresql"
        cursor.execute(f"DROP DATABASE {name}{' WITH (FORCE)' if is_postgres else ''}")
