"""What a check is, and how messages of system checks become findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from django.core import checks
from django.utils.translation import gettext as _

from django_dbqueue.checks.wrong_servers import messages
from django_dbqueue.databases import Server
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine, note, problem, warning
from django_dbqueue.doctor.judged_servers import findings

Examine = Callable[[ExaminedDatabase], Iterable[Finding]]
On = Callable[[Server], bool]
Grant = Callable[[Server], str]
"""Which servers a check examines."""


def answering(*questions: str) -> On:
    """Return the servers that are asked all of these."""
    return lambda server: server.facts.questions.keys() >= {*questions}


def a_server(server: Server) -> bool:
    """Return whether sessions connect to it."""
    return not server.is_file


def a_file(server: Server) -> bool:
    """Return whether the database is a file."""
    return server.is_file


def no_grant(_: Server) -> str:
    """Return '': the server refuses nobody, or no grant would help."""
    return ""


def to_work(_: Server) -> str:
    """Return what an account needs to work with messages, in the syntax of MySQL and MariaDB."""
    return "GRANT SELECT, INSERT, UPDATE, DELETE ON django_dbqueue_message TO %(account)s"


def to_see(server: Server) -> str:
    """Return what an account needs to see what others do, if the server has a grant for that."""
    return server.facts.to_see


@dataclass(frozen=True, slots=True)
class Check:
    """A check; ``grant`` gives the account what it lacks if the server refuses to answer."""

    name: str
    examine: Examine
    on: On
    needs_tables: bool
    grant: Grant


def examines(
    name: str, *, on: On = lambda _: True, needs_tables: bool = False, grant: Grant = no_grant
) -> Callable[[Examine], Check]:
    """Make a function a check; several with one name examine different servers."""
    return lambda examine: Check(name, examine, on, needs_tables, grant)


def judges(name: str, *, on: On = lambda _: True, needs_tables: bool = False) -> Check:
    """Return the check of what the servers that have this judge are judged by it."""
    return Check(
        name,
        lambda database: judgement(database, name),
        lambda server: name in server.facts.judges and on(server),
        needs_tables,
        no_grant,
    )


def judgement(database: ExaminedDatabase, name: str) -> Iterator[Finding]:
    """Yield what the server's judge of this name finds."""
    for found in database.server.facts.judges[name](database):
        yield from judged(messages(database.alias, [found]))
        yield from findings([found])


def judged(messages: Iterable[checks.CheckMessage], *, otherwise: str = "") -> Iterator[Finding]:
    """Yield the messages of system checks as findings or, if there are none, that all is well, where that has words."""
    all_is_well = True
    for message in messages:
        all_is_well = False
        if message.is_silenced():
            yield note(
                _("%(found)s (%(id)s is in SILENCED_SYSTEM_CHECKS.)") % {"found": message.msg, "id": message.id},
            )
            continue
        yield (problem if message.is_serious() else warning)(message.msg, message.hint or "")
    if all_is_well and otherwise:
        yield fine(otherwise)
