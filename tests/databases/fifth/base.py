"""A fifth server, made of SQLite's: what it takes to add one. Django imports its backend from here."""

from __future__ import annotations

from django.db.backends.sqlite3 import base

from django_dbqueue.databases import SERVERS
from django_dbqueue.databases.sqlite import SQLite


class Fifth(SQLite):
    """Says one thing otherwise."""

    vendor = "fifth"
    rows_of_an_insert = 7


SERVERS[Fifth.vendor] = Fifth()


class DatabaseWrapper(base.DatabaseWrapper):
    vendor = Fifth.vendor
