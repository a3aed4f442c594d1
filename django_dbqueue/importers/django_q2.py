"""django-q2 with its ORM broker: packages that no cluster has claimed become tasks here.

A cluster claims a package by moving its lock into the future, if it is still as the cluster has read it. So a package
whose lock is past, read under a lock of the row, is nobody's; a cluster that has read it before finds it gone.
"""

from __future__ import annotations

import datetime
import decimal
import io
import pickle
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django.apps.registry import Apps
from django.conf import settings
from django.core import signing
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from django_dbqueue.importers.source import Addressed, ImportSource, NotImportable, SourceCounts
from django_dbqueue.importers.task_calls import addressed
from django_dbqueue.models.fields import clock

LOST: Final = ("hook", "chain", "iter_count")
"""Options of a package that mean more calls, which a task here doesn't make."""
_PLAIN: Final = {
    (each.__module__, each.__name__): each
    for each in (
        datetime.date,
        datetime.time,
        datetime.datetime,
        datetime.timedelta,
        datetime.timezone,
        decimal.Decimal,
        uuid.UUID,
    )
}
"""What a payload may hold beside plain values. Every package holds a moment: when it was enqueued."""


@dataclass(frozen=True, slots=True)
class Named:
    """A function or class that a pickle names; it is not imported, and nothing can call it."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class OrmQ(models.Model):  # noqa: DJ008 - no person sees it
    """A row as django-q2 1.11 makes it."""

    id = models.AutoField(primary_key=True)
    key = models.CharField(max_length=100)
    payload = models.TextField()
    lock = models.DateTimeField(null=True)

    class Meta:
        apps = Apps()
        app_label = "dbqueue_importers"
        db_table = "django_q_ormq"
        managed = False


class DjangoQ2(ImportSource):
    """Calls of functions that are tasks here, each in its task's own queue."""

    name: ClassVar[str] = "django-q2"
    model = OrmQ
    order = ("id",)

    def waiting(self, using: str) -> Q:
        now = clock(using)
        return Q(lock__lte=now if settings.USE_TZ else timezone.make_naive(now))

    def counts(self, using: str) -> SourceCounts:
        rows = OrmQ._base_manager.using(using)
        waiting = rows.filter(self.waiting(using)).count()
        return SourceCounts(waiting, rows.count() - waiting, 0)

    def read(self, row: Any) -> Addressed:
        package = _unpacked(row.payload)
        lost = [name for name in LOST if package.get(name)]
        if lost:
            raise NotImportable(_("Its option %(option)s means calls that a task doesn't make.") % {"option": lost[0]})
        function = package.get("func")
        path = str(function) if isinstance(function, Named) else function
        if not isinstance(path, str):
            raise NotImportable(_("It doesn't name a function."))
        args, kwargs = package.get("args", ()), package.get("kwargs", {})
        if _holds_bytes([args, kwargs]):
            raise NotImportable(_("It has bytes among its arguments, which JSON has not."))
        return addressed(path, args, kwargs, origin=self.origin(row))


def _holds_bytes(value: object) -> bool:
    rest, seen = [value], set[int]()
    while rest:
        part = rest.pop()
        if isinstance(part, bytes | bytearray):
            return True
        if id(part) not in seen and isinstance(part, Mapping | list | tuple):
            seen.add(id(part))
            rest += [*part.keys(), *part.values()] if isinstance(part, Mapping) else part
    return False


class _Unpickler(pickle.Unpickler):
    """Reads values without importing anything, or calling more than the types of values, whoever wrote the pickle."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.named: list[Named] = []

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return _PLAIN[module, name]
        self.named.append(Named(module, name))
        return self.named[-1]


def _unpacked(payload: str) -> dict[str, Any]:
    """Return the package of a row that django-q2 has signed: with SECRET_KEY, salted with the site's name."""
    signer = signing.TimestampSigner(salt=getattr(settings, "Q_CLUSTER", {}).get("name", "default"))
    try:
        encoded = signer.unsign(payload)
    except signing.BadSignature as error:
        raise NotImportable(
            _(
                "Its signature doesn't match: keep SECRET_KEY, and the name in Q_CLUSTER, as they were when it was "
                "enqueued."
            )
        ) from error
    try:
        pickled = signing.b64_decode(encoded.removeprefix(".").encode())
        package = _values(zlib.decompress(pickled) if encoded.startswith(".") else pickled)
    except (ValueError, zlib.error):
        package = None
    if not isinstance(package, dict):
        raise NotImportable(_("It is not a package of django-q2."))
    return package


def _values(pickled: bytes) -> Any:
    reader = _Unpickler(pickled)
    try:
        return reader.load()
    except Exception as error:  # a pickle can go wrong in any way
        names = ", ".join(sorted({str(each) for each in reader.named})) or type(error).__name__
        raise NotImportable(
            _("Its pickle holds more than values, which is not decoded: %(names)s.") % {"names": names}
        ) from error


SOURCE: Final = DjangoQ2()
