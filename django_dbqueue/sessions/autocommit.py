"""Autocommit on a MySQL server whose sessions start without it, so that what ``enqueue()`` returned is committed (P1).

Such a server (``autocommit = 0`` by default) greets with a status that claims the opposite. The driver believes it, so
Django's ``set_autocommit(True)`` sends nothing. What is written outside ``atomic()`` is then lost with its session,
including a plain handler's rows. ``completion_type = CHAIN`` does the same to whatever follows a COMMIT.
"""

from __future__ import annotations

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from django_dbqueue.databases import terms_of


def connect() -> None:
    """Switch it on in each session that this process opens, and in those already open; twice changes nothing."""
    connection_created.connect(_begun, dispatch_uid="django_dbqueue.sessions.autocommit")
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and not connection.in_atomic_block:
            _begun(connection)


def _begun(connection: BaseDatabaseWrapper, **_: object) -> None:
    """Send it once per session, bypassing Django's wrappers, as the driver would."""
    words = terms_of(connection.vendor).autocommits
    if not words or not connection.settings_dict["AUTOCOMMIT"]:
        return
    try:
        with connection.wrap_database_errors, connection.connection.cursor() as cursor:
            cursor.execute(words)
    except BaseException:
        connection.close()  # otherwise the next statement would be sent in the session as it is
        raise
