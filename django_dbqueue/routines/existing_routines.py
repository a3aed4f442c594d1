"""Which database objects already have our routines' names, and whether they may be taken for ours.

Our comment alone proves nothing: any account that may create a function can write it. A namesake of one of the helpers
would run with the rights of the account that installs the routines calling it.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from django_dbqueue.routines import installer_sql
from django_dbqueue.routines.rendering import MARK, NAMES
from django_dbqueue.sessions.django_session import session_of


@dataclass(frozen=True, slots=True)
class InstalledRoutine:
    """An object with one of our names. ``is_trusted``: its owner is the installer, or could do anything anyway."""

    kind: str
    name: str
    signature: str
    comment: str
    owner: str
    is_trusted: bool

    @property
    def is_ours(self) -> bool:
        return self.comment.partition(" ")[0] == MARK


def schema_of(using: str) -> str:
    """Return the schema of the queue's tables on PostgreSQL, quoted for SQL."""
    return str(session_of(using).fetch(installer_sql.schema_of_table())[0][0])


def installed(using: str) -> list[InstalledRoutine]:
    """Return what has one of our names, or our mark."""
    if session_of(using).server.has_schemas:
        statement = installer_sql.installed_on_postgresql(NAMES, schema_of(using))
    else:
        statement = installer_sql.installed_on_mysql(NAMES)
    return [
        InstalledRoutine(str(kind), str(name), str(signature), str(comment), str(owner), bool(is_trusted))
        for kind, name, signature, comment, owner, is_trusted in session_of(using).fetch(statement)
    ]


def refuse_foreign(using: str, found: list[InstalledRoutine]) -> None:
    """Raise CommandError if something isn't ours; on PostgreSQL, where replacing keeps the owner, also by owner."""
    keeps_owner = session_of(using).server.has_schemas
    foreign = [
        f"{one.kind} {one.signature} ({one.owner})"
        for one in found
        if not one.is_ours or (keeps_owner and not one.is_trusted)
    ]
    if foreign:
        raise CommandError(
            _(
                "django_dbqueue did not create these, and leaves them alone: %(names)s. Nothing was installed. Drop "
                "or rename them, and run this again."
            )
            % {"names": ", ".join(foreign)}
        )
