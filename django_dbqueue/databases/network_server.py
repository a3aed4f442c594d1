"""A server that is one: with sessions, named locks and partitions. SQLite has none of them."""

from __future__ import annotations

from typing import ClassVar

from django_dbqueue.databases.partitions_sql import PartitionsSQL
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.sessions_sql import SessionsSQL


class NetworkServer(Server):
    """A server to which sessions connect."""

    sessions_class: ClassVar[type[SessionsSQL]]
    partitions_class: ClassVar[type[PartitionsSQL]]

    def __init__(self) -> None:
        self.sessions = self.sessions_class(self)
        self.partitions = self.partitions_class(self)
