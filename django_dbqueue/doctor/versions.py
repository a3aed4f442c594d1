"""Old row versions, and what keeps the server from purging them: claims walk over them, and get slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from django.db import Error
from django.utils.translation import gettext as _

from django_dbqueue.databases import means
from django_dbqueue.databases.retries import again
from django_dbqueue.databases.statement import Row
from django_dbqueue.doctor.check import a_file, answering, examines, to_see
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine, note, warning
from django_dbqueue.states.counts import grouped

LONG_HISTORY: Final = 100_000
"""Changes that InnoDB has not purged yet, and dead rows of a table in PostgreSQL."""
DEAD_SHARE: Final = 0.2
"""Share of dead rows below which many of them are normal for a large table."""
LONG_TRANSACTION: Final = 300.0
"""Seconds."""
LARGE_LOG: Final = 64 * 1024 * 1024
"""Bytes of SQLite's write-ahead log, which starts over once no reader holds on to it."""
_OLDEST: Final = "oldest-transaction"


@examines("history", on=answering("history status", "history metric"), grant=to_see)
def history(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check how long InnoDB's history list is."""
    rows = database.answer("history status") or database.answer("history metric")
    if not rows:
        yield note(_("The server doesn't report the length of its history list."))
        return
    yield _much(
        int(rows[0][1]),
        fine_words=_("The history list is %s changes long."),
        ill_words=_(
            "The history list is %s changes long: each claim has to read past index entries that are no longer needed."
        ),
    )


@examines("history", on=answering("dead rows"), needs_tables=True)
def dead_rows(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check how many dead rows of the messages await the vacuum."""
    [(dead, live)] = database.answer("dead rows", database.server.message) or [(0, 0)]
    few = dead < DEAD_SHARE * (dead + live)
    yield _much(
        0 if few else int(dead),
        shown=int(dead),
        fine_words=_("%s dead rows of the message table wait for vacuum."),
        ill_words=_("%s dead rows of the message table wait for vacuum: each claim has to read past them."),
    )


def _much(count: int, *, fine_words: str, ill_words: str, shown: int | None = None) -> Finding:
    words = grouped(count if shown is None else shown)
    if count <= LONG_HISTORY:
        return fine(fine_words % words)
    return warning(
        ill_words % words,
        _(
            "End whatever holds them: see the check '%s'. If nothing does, the server cleans up more slowly than it "
            "writes."
        )
        % _OLDEST,
    )


@examines("history", on=a_file)
def write_ahead_log(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check how large the write-ahead log has grown."""
    if database.connection.is_in_memory_db():
        return
    log = Path(f"{database.connection.settings_dict['NAME']}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size <= LARGE_LOG:
        yield fine(_("The write-ahead log is %s bytes long.") % grouped(size))
        return
    yield warning(
        _(
            "The write-ahead log is %s bytes long: a long-running reader keeps it from starting over, and each read "
            "has to search it."
        )
        % grouped(size),
        _("End the program that keeps a transaction open, then run PRAGMA wal_checkpoint(TRUNCATE)."),
    )


@examines("oldest-transaction", on=answering("oldest transactions"), grant=to_see)
def oldest(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check for transactions that have been open for long.

    A prepared one holds on to everything until somebody ends it, even over restarts.
    """
    questions = database.server.facts.questions
    if "sees sessions" in questions and not database.answer("sees sessions")[0][0]:
        yield note(
            _("The account %s may not see how long other accounts' transactions have been open.") % database.account,
            f"GRANT pg_read_all_stats TO {database.account}",
        )
    prepared = database.answer("prepared transactions") if "prepared transactions" in questions else []
    if prepared and prepared[0][1] > LONG_TRANSACTION:
        yield from _oldest(prepared, _("the prepared transaction %r"), "ROLLBACK PREPARED '%s'")
    try:
        rows = again(lambda: database.answer("oldest transactions"), passing=partial(means, kind="unshowable"))
    except Error as error:
        if not means(error, "unshowable"):
            raise
        yield note(
            _("MySQL can't list transactions while a running statement contains a four-byte character."),
            _("Run the doctor again when the server is less busy."),
        )
        return
    sessions = database.server.sessions
    yield from _oldest(rows, _("session %s"), sessions.end_session(0).sql if sessions else "")


def _oldest(rows: list[Row], name: str, end: str) -> Iterator[Finding]:
    long = [(who, age) for who, age in rows if age is not None and age > LONG_TRANSACTION]
    if not long:
        yield fine(_("No transaction has been open for longer than %g minutes.") % (LONG_TRANSACTION / 60))
        return
    yield warning(
        _("Transactions have been open for too long: %s. Until they end, old row versions can't be removed.")
        % ", ".join(_("%(who)s for %(age)d s") % {"who": name % who, "age": age} for who, age in long),
        _("Find out what they are doing, and end them: %s") % "; ".join(end % who for who, _age in long),
    )
