"""``manage.py queue_routines``: the queue for programs in other languages, as stored routines."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error

from django_dbqueue.exceptions import UnsupportedDatabase
from django_dbqueue.management import routines
from django_dbqueue.management.options import chosen_alias


class Command(BaseCommand):
    """Install, take away or print. Run ``install`` again after an upgrade, and after a change of ``DBQUEUE``."""

    requires_system_checks: list[str] = []
    help = "Install, uninstall or print the queue's stored routines (MySQL, MariaDB, PostgreSQL)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=("install", "uninstall", "print"))
        parser.add_argument("--database", help="alias of the database (default: DBQUEUE['DATABASE'], or the router's)")

    def handle(self, *_args: Any, **said: Any) -> None:
        alias = chosen_alias(said["database"])
        try:
            getattr(self, f"_{said['action']}")(alias)
        except UnsupportedDatabase as error:
            raise CommandError(str(error)) from error
        except Error as error:
            raise CommandError(f"The database {alias!r} can't be asked: {error}") from error

    def _install(self, alias: str) -> None:
        made, unchanged = routines.install(alias)
        for routine in made:
            self.stdout.write(f"made {routine.kind.lower()} {routine.signature}")
        self.stdout.write(f"{len(made)} made, {len(unchanged)} unchanged")

    def _uninstall(self, alias: str) -> None:
        gone = routines.uninstall(alias)
        for standing in gone:
            self.stdout.write(f"dropped {standing.kind.lower()} {standing.signature}")
        self.stdout.write(f"{len(gone)} dropped")

    def _print(self, alias: str) -> None:
        for text in routines.script(alias):
            self.stdout.write(text)
