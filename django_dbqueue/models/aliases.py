"""Where the queue lives, decided in one place for every operation."""

from __future__ import annotations

from django.db import models, router

from django_dbqueue import conf
from django_dbqueue.lifecycle.django_session import session_of


def db_alias(model: type[models.Model]) -> str:
    """Return the alias to read and write: ``DBQUEUE["DATABASE"]`` if it is set, else the router's choice for writes.

    Reads go there too: a replica would show messages as they were. UnsupportedDatabase if the queue can't live there.
    """
    alias: str = conf.get("DATABASE") or router.db_for_write(model)
    return session_of(alias).using
