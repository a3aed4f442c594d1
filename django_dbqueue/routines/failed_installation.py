"""What an installation of routines that failed says: what the database refused, and what to do next."""

from __future__ import annotations

from django.core.management.base import CommandError
from django.db import Error
from django.utils.translation import gettext as _

from django_dbqueue.databases import means
from django_dbqueue.databases.statement import Row
from django_dbqueue.routines.rendering import Routine
from django_dbqueue.sessions.django_session import DjangoSession


def half_replaced(session: DjangoSession, routine: Routine, grants: list[Row], error: Error) -> CommandError:
    """Return the error of one that failed between the DROP of a routine and its grants."""
    text = _(
        "The database %(alias)r failed while %(name)s was replaced: %(error)s\n"
        "It is missing, or lacks its grants. Run: manage.py queue_routines install --database %(alias)s"
    ) % {"alias": session.using, "name": routine.signature, "error": error}
    if grants:
        accounts = ", ".join(f"'{user}'@'{host}'" for user, host, _may_grant in grants)
        text += "\n" + _("Then grant EXECUTE on it again to: %(accounts)s") % {"accounts": accounts}
    return CommandError(text)


def explained(session: DjangoSession, error: Error) -> str:
    """Return what the database refused, and what to do next."""
    text = _("The database %(alias)r refused: %(error)s\nNothing was left half installed.\n") % {
        "alias": session.using,
        "error": error,
    }
    if means(error, "untrusted"):
        return text + _(
            "The server keeps a binary log, so only some accounts may create stored functions. Do one of these:\n"
            "  * an administrator runs once: SET GLOBAL log_bin_trust_function_creators = 1\n"
            "    (and writes it into the server's configuration); then run this again. It is safe with\n"
            "    binlog_format = ROW, which the queue needs anyway;\n"
            "  * an administrator (SUPER) runs what `manage.py queue_routines print` prints, in this database;\n"
            "  * run this with an administrator's account, by an alias of its own: --database ALIAS."
        )
    if not means(error, "denied"):
        return text
    if session.server.has_schemas:
        return text + _("The account needs CREATE on the table's schema, and must own what it replaces.")
    return text + _(
        "The account needs CREATE ROUTINE, ALTER ROUTINE, EXECUTE, CREATE VIEW, SHOW VIEW and DROP on the database, "
        "and what it needs for the queue's tables."
    )
