"""Columns that mean the same on every server: exact text, UTC moments, the status enum, the server's clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Func
from django.db.models.query_utils import DeferredAttribute
from django.utils.dateparse import parse_datetime

from django_dbqueue.databases import terms_of
from django_dbqueue.databases.moments import to_column
from django_dbqueue.lifecycle.hydration import UNREAD
from django_dbqueue.models import ascii_lookups
from django_dbqueue.sessions.django_session import session_of

if TYPE_CHECKING:
    Characters = models.CharField[Any, Any]
    Text = models.TextField[Any, Any]
    Moment = models.DateTimeField[Any, Any]
else:  # only the stubs of Django's fields are generic
    Characters, Text, Moment = models.CharField, models.TextField, models.DateTimeField


_AS_WRITTEN = len("2026-01-31 12:00:00.000000")


class DbNow(Func):
    """The database's clock in UTC (promise P13)."""

    output_field = models.DateTimeField()
    arity = 0
    allowed_default = True

    def as_sql(self, _compiler: object, connection: BaseDatabaseWrapper, **_: object) -> tuple[str, list[object]]:  # type: ignore[override]
        return session_of(connection.alias).server.now, []


class DbLater(Func):
    """The database's clock, plus a number of seconds."""

    output_field = models.DateTimeField()
    arity = 0

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def as_sql(self, _compiler: object, connection: BaseDatabaseWrapper, **_: object) -> tuple[str, list[object]]:  # type: ignore[override]
        sql = session_of(connection.alias).server
        return sql.plus(sql.now, "%s"), [self.seconds]


def clock(using: str) -> datetime:
    """Return what the database's clock says now."""
    session = session_of(using)
    moment = to_utc(session.fetch(session.server.clock())[0][0], session.connection)
    assert moment is not None
    return moment


class AsciiField(Characters):
    """Text of ASCII characters, compared exactly: no case, no accents, no padding."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return terms_of(connection.vendor).ascii_type.format(self.max_length)


ascii_lookups.register(AsciiField)


class KeyField(Characters):
    """A short text of any Unicode character, compared by code point: a key, a name, a reason."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return terms_of(connection.vendor).key_type.format(self.max_length)


class ExactTextField(Text):
    """Text as it is, of any Unicode character and up to the packet size, whatever the database's default charset."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return terms_of(connection.vendor).text_type


class StatusField(Characters):
    """The three statuses: a native ENUM where one exists."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return terms_of(connection.vendor).status_type.format(self.max_length)


class UnreadMoment(DeferredAttribute):
    """A moment that a claim left as the driver returned it: few handlers ask for any of the four of a message."""

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        values, name = {} if instance is None else instance.__dict__, self.field.attname
        unread = values.get(UNREAD, ())
        if name not in unread:
            return super().__get__(instance, cls)
        left = unread[name]
        values[name] = moment = (
            of_text(left) if isinstance(left, str) else to_utc(left, connections[instance._state.db])
        )
        return moment


class UTCDateTimeField(Moment):
    """A moment stored in UTC and returned aware, whatever USE_TZ and the connection's TIME_ZONE are.

    Django's own field follows both settings on MySQL and SQLite, whose columns know no time zone. The queue's
    statements compare these columns with the server's UTC clock, so they must hold nothing else.
    """

    descriptor_class = UnreadMoment

    def from_db_value(self, value: Any, _expression: object, connection: BaseDatabaseWrapper) -> datetime | None:
        return to_utc(value, connection)

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, datetime) and value.tzinfo is not None:
            return value
        return super().get_prep_value(value)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if not prepared:
            value = self.get_prep_value(value)
        if isinstance(value, datetime) and value.tzinfo is not None:
            return to_column(value, connection.vendor)
        return super().get_db_prep_value(value, connection, prepared=True)


def to_utc(value: Any, connection: BaseDatabaseWrapper) -> datetime | None:
    """Return a moment from a cursor or the ORM as an aware datetime in UTC."""
    if isinstance(value, str):
        return of_text(value)  # SQLite's may be any text
    moment: datetime | None = value
    if moment is None or moment.tzinfo is UTC:
        return moment
    if not terms_of(connection.vendor).has_zones:
        return moment.replace(tzinfo=UTC)  # Django labels it with the connection's zone; the column says UTC
    if moment.tzinfo is None:  # USE_TZ = False: psycopg returns the session's local time
        moment = moment.replace(tzinfo=ZoneInfo(connection.timezone_name))
    return moment.astimezone(UTC)


def of_text(text: str) -> datetime | None:
    """Return the moment that a text means, in UTC if it names no offset; None if it is not a moment (on SQLite)."""
    if len(text) == _AS_WRITTEN and text[-3] not in "+-":  # the form in which our own statements ask for it
        return datetime.fromisoformat(text + "+00:00")  # an eighth of what replace() costs
    moment = parse_datetime(text)
    if moment is None:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
