"""What a check is, and how messages of system checks become findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from django.core import checks
from django.utils.translation import gettext as _

from django_dbqueue.doctor.examined_database import Patient
from django_dbqueue.doctor.finding import Finding, fine, note, problem, warning

Look = Callable[[Patient], Iterable[Finding]]
MYSQL: Final = "mysql"
"""MariaDB as well: Django uses one name for both."""
POSTGRESQL: Final = "postgresql"
SQLITE: Final = "sqlite"
SERVERS: Final = (MYSQL, POSTGRESQL)
ALL: Final = (*SERVERS, SQLITE)
TO_WORK: Final = "GRANT SELECT, INSERT, UPDATE, DELETE ON django_dbqueue_message TO %(account)s"
TO_SEE: Final = "GRANT PROCESS ON *.* TO %(account)s"
"""What an account needs, in the syntax of MySQL and MariaDB."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check; ``grant`` gives the account what it lacks if the server refuses to answer."""

    name: str
    look: Look
    vendors: tuple[str, ...]
    needs_tables: bool
    grant: str


def examines(
    name: str, *, on: tuple[str, ...] | str = ALL, needs_tables: bool = False, grant: str = ""
) -> Callable[[Look], Check]:
    """Make a function a check; several with one name examine different servers."""
    vendors = (on,) if isinstance(on, str) else on
    return lambda look: Check(name, look, vendors, needs_tables, grant)


def judged(messages: Iterable[checks.CheckMessage], *, otherwise: str) -> Iterator[Finding]:
    """Yield the messages of system checks as findings or, if there are none, that all is well."""
    all_is_well = True
    for message in messages:
        all_is_well = False
        if message.is_silenced():
            yield note(
                _("%(found)s (%(id)s is in SILENCED_SYSTEM_CHECKS.)") % {"found": message.msg, "id": message.id},
            )
            continue
        yield (problem if message.is_serious() else warning)(message.msg, message.hint or "")
    if all_is_well:
        yield fine(otherwise)
