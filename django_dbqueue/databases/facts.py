"""What a server is asked about itself, and how its answers are judged.

A judge gives codes; ``checks/wrong_servers`` and ``doctor/judged_servers`` have what they mean, and how grave they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from django_dbqueue.databases.query_plans import QueryPlan
from django_dbqueue.databases.statement import Row, Statement

MOST_SHOWN: Final = 5
"""Maximum number of rows for facts that are lists."""
ON: Final = ("ON", "on", "1")


class Judgement(NamedTuple):
    """What an answer means. The words of its text are whole numbers, texts, or other judgements."""

    code: str
    words: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Examined:
    """A database under examination."""

    connection: Any
    """Django's."""
    answers: Mapping[str, str]
    """To ``ServerFacts.settings``; names in lower case."""
    tables: Sequence[str]
    """Those whose storage matters."""
    largest: int | None
    """Bytes of the largest payload that the settings allow; None if they are wrong."""
    sent_together: int
    """Bytes of the payloads that one statement inserts."""

    @property
    def alias(self) -> str:
        """The database's name in DATABASES."""
        return str(self.connection.alias)

    @property
    def options(self) -> dict[str, Any]:
        """OPTIONS of the database's settings."""
        return dict(self.connection.settings_dict.get("OPTIONS", {}))

    def ask(self, question: Statement) -> list[Row]:
        """Return the rows of an answer."""
        with self.connection.cursor() as cursor:
            cursor.execute(question.sql, question.params)
            return list(cursor.fetchall())

    def number(self, name: str) -> int | None:
        """Return the value reported under this name, if it is a whole number."""
        value = self.answers.get(name, "")
        return int(value) if value.isdigit() else None

    def are_on(self, *names: str) -> list[str]:
        """Return those of these settings that are on."""
        return [name for name in names if self.answers.get(name) in ON]


class ServerFacts(NamedTuple):
    """What to ask, and how to judge it."""

    settings: Statement
    """Reads (name, value) rows: variables of MySQL and MariaDB, settings of PostgreSQL, pragmas of SQLite."""
    judges: Mapping[str, Callable[[Examined], Iterator[Judgement]]]
    """By the name of the doctor's check, in the order of the system checks."""
    explain: str
    """Asks how the server would run the statement that follows."""
    read_plan: Callable[[list[dict[str, Any]]], QueryPlan]
    """Reads the answer; the names of its columns are in lower case."""
    idle: tuple[str, int] | None = None
    """The setting for how long a session may be idle, and how many of its units are a second."""
    lock_wait: str = ""
    """The setting for how many seconds a statement waits for a row that is locked."""
    to_see: str = ""
    """What gives ``%(account)s`` the right to see what other accounts do, where a server has such a grant."""
    questions: Mapping[str, Callable[..., Statement]] = MappingProxyType({})
    """Other statements that checks send, by name; a server has those that apply to it."""


def isolation(level: str) -> Iterator[Judgement]:
    """Judge the isolation of a project's transactions, given in any spelling; the queue's own are READ COMMITTED."""
    words = level.upper().replace("-", " ").replace("_", " ")
    yield Judgement("isolated well") if words == "READ COMMITTED" else Judgement("isolation", {"level": words})


def writable(forbids: Sequence[str]) -> Iterator[Judgement]:
    """Judge what forbids to write."""
    yield Judgement("read only", {"names": ", ".join(forbids)}) if forbids else Judgement("writable")
