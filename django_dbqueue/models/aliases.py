"""Where the queue lives, said once for every operation."""

from __future__ import annotations

from django.db import connections, models, router

from django_dbqueue import conf
from django_dbqueue.databases import dialect_of


def db_alias(model: type[models.Model]) -> str:
    """Return the alias to read and write: ``DBQUEUE["DATABASE"]`` where it is said, else the router's word for writes.

    Reads go there too: a replica shows messages as they were. UnsupportedDatabase where the queue can't live there.
    """
    alias = conf.database() or router.db_for_write(model)
    dialect_of(connections[alias])
    return alias
