"""Where the queue lives, decided in one place for every operation."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import models

from django_dbqueue import conf
from django_dbqueue.sessions.django_session import DjangoSession, session_for

conf.require_app()  # before the first model is defined, for which Django has a sentence about its class
AnyModel = TypeVar("AnyModel", bound=models.Model)


def db_alias(model: type[models.Model]) -> str:
    """Return the alias to read and write, that of ``session_for``: a replica would show messages as they were.

    UnsupportedDatabase if the queue can't live there.
    """
    return session_for(model).using


class OwnDatabaseManager(models.Manager[AnyModel]):
    """A manager whose selections read the database that its verbs write to, as those of ``Message.objects``."""

    def get_queryset(self) -> models.QuerySet[AnyModel]:
        """Return the rows of the queue's database."""
        return super().get_queryset().using(self._session().using)

    def _session(self, using: str | None = None) -> DjangoSession:
        return session_for(self.model, using or self._db)


class OwnDatabaseModel(models.Model):
    """A model whose rows are read from the database of the messages, as all of the package are."""

    objects = OwnDatabaseManager[Any]()

    class Meta:
        abstract = True
