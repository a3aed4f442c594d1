"""Where the queue lives, decided in one place for every operation."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import models, router

from django_dbqueue import conf
from django_dbqueue.sessions.django_session import DjangoSession, session_of

AnyModel = TypeVar("AnyModel", bound=models.Model)


def own_session(model: type[models.Model], alias: str | None = None) -> DjangoSession:
    """Return the session of this database, else of the queue's; UnsupportedDatabase if the queue can't live there."""
    return session_of(alias or conf.get("DATABASE") or router.db_for_write(model))


def db_alias(model: type[models.Model]) -> str:
    """Return the alias to read and write: ``DBQUEUE["DATABASE"]`` if it is set, else the router's choice for writes.

    Reads go there too: a replica would show messages as they were. UnsupportedDatabase if the queue can't live there.
    """
    return own_session(model).using


class OwnDatabaseManager(models.Manager[AnyModel]):
    """A manager whose selections read the database that its verbs write to, as those of ``Message.objects``."""

    def get_queryset(self) -> models.QuerySet[AnyModel]:
        """Return the rows of the queue's database."""
        return super().get_queryset().using(self._session().using)

    def _session(self, using: str | None = None) -> DjangoSession:
        return own_session(self.model, using or self._db)


class OwnDatabaseModel(models.Model):
    """A model whose rows are read from the database of the messages, as all of the package are."""

    objects = OwnDatabaseManager[Any]()

    class Meta:
        abstract = True
