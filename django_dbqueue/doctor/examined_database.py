"""The database under examination: its connection, and what it reports about itself, asked once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final

from django.apps import apps
from django.db import Error, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue import conf
from django_dbqueue.checks.answers import examined_by
from django_dbqueue.consumers import registry
from django_dbqueue.databases import Server, server_of
from django_dbqueue.databases.facts import Examined
from django_dbqueue.databases.statement import Row
from django_dbqueue.sessions.django_session import session_of

APP: Final = "django_dbqueue"
NOBODYS: Final = ":nobody"
"""A queue's name that no queue can have."""
WAITS: Final = 3
"""Maximum seconds that a check waits for a lock."""


@dataclass(frozen=True, slots=True)
class ExaminedDatabase(Examined):
    """A database under examination, and the account."""

    account: str
    """As GRANT names it; '' on SQLite."""

    @classmethod
    def at(cls, connection: BaseDatabaseWrapper) -> ExaminedDatabase:
        """Ask a server what it reports about itself."""
        account = server_of(connection).facts.questions.get("account")
        session = session_of(connection.alias)
        return cls(**examined_by(connection, tables()), account=str(session.fetch(account())[0][0]) if account else "")

    @property
    def server(self) -> Server:
        """The builder of the queue's statements."""
        return session_of(self.alias).server

    def answer(self, question: str, *about: object) -> list[Row]:
        """Return the rows of the answer to one of the server's own questions."""
        return self.ask(self.server.facts.questions[question](*about))

    @contextmanager
    def examining(self) -> Iterator[None]:
        """Examine without waiting long for anybody's locks; on servers, in a transaction that is rolled back."""
        session, server, questions = session_of(self.alias), self.server, self.server.facts.questions
        with nullcontext() if server.is_file else session.transaction():  # which would take SQLite's write lock
            session.run(questions["wait briefly"](WAITS))
            try:
                yield
            finally:
                if "wait as before" in questions:
                    with suppress(Error):  # a session that is gone needs nothing restored
                        session.run(questions["wait as before"](self.answers))
                if not server.is_file:
                    transaction.set_rollback(True, using=self.alias)


def tables() -> list[str]:
    """Return the names of all tables of the app."""
    return [model._meta.db_table for model in apps.get_app_config(APP).get_models()]


def leases() -> dict[str, float]:
    """Return seconds by source: each registered consumer, each queue of the settings, and DEFAULTS."""
    queues = {name: each.resolved().lease for name, each in registry.registered().items()}
    named = {name: conf.queue_options(name).lease for name in conf.get("QUEUES")}
    return {"DEFAULTS": conf.queue_options("").lease} | named | queues


def first_line(error: BaseException) -> str:
    """Return a driver error's text, without the statement that some drivers add."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
