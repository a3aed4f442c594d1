"""``manage.py queue_routines``: the queue for programs in other languages, as stored routines."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import Error, connections
from django.utils.translation import gettext as _

from django_dbqueue.checks.database import check_schema
from django_dbqueue.exceptions import UnsupportedDatabase
from django_dbqueue.management.common_options import chosen_alias, refuse_autocommit_off
from django_dbqueue.management.console import TerminalCommand
from django_dbqueue.routines import installation
from django_dbqueue.routines.existing_routines import InstalledRoutine
from django_dbqueue.sessions.django_session import session_of


class Command(TerminalCommand):
    """Install, uninstall or print. Run ``install`` again after an upgrade, and after a change of ``DBQUEUE``."""

    help = "Install, uninstall or print the queue's stored routines (MySQL, MariaDB, PostgreSQL)."
    requires_system_checks: Any = "__all__"  # values of DBQUEUE go into the routines

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "action",
            choices=("install", "uninstall", "print"),
            help="create them, or replace those of another version; drop them; or print their SQL and change nothing",
        )
        parser.add_argument("--database", help="alias of the database (default: DBQUEUE['DATABASE'], or the router's)")

    def handle(self, *_args: object, **options: Any) -> None:
        alias = chosen_alias(options["database"])
        if options["action"] != "print":
            refuse_autocommit_off(alias)
        try:
            getattr(self, f"_{options['action']}")(alias)
        except UnsupportedDatabase as error:
            raise CommandError(str(error)) from error
        except Error as error:
            raise CommandError(
                _("The database %(alias)r can't be queried: %(error)s") % {"alias": alias, "error": error}
            ) from error

    def _install(self, alias: str) -> None:
        made, unchanged, dropped = installation.install(session_of(alias))
        for routine in made:
            self.stdout.write(_("created %(what)s") % {"what": f"{routine.kind.lower()} {routine.signature}"})
        self._report_dropped(dropped)
        counts = {"made": len(made), "unchanged": len(unchanged)}
        self.stdout.write(_("%(made)d created, %(unchanged)d unchanged") % counts)
        for found in check_schema(connections[alias]):
            self.stderr.write(f"{found.msg}\n{found.hint}")

    def _uninstall(self, alias: str) -> None:
        gone = installation.uninstall(session_of(alias))
        self._report_dropped(gone)
        self.stdout.write(_("%(dropped)d dropped") % {"dropped": len(gone)})

    def _report_dropped(self, dropped: list[InstalledRoutine]) -> None:
        for routine in dropped:
            self.stdout.write(_("dropped %(what)s") % {"what": f"{routine.kind.lower()} {routine.signature}"})

    def _print(self, alias: str) -> None:
        for text in installation.script(session_of(alias)):
            self.stdout.write(text)
