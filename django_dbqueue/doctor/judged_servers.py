"""What the doctor says of a server, by the code that its judge gives: how much it matters, what is, and what to do.

What is wrong for system checks, too, is in ``checks/wrong_servers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from django_dbqueue.databases.facts import Judgement
from django_dbqueue.doctor.finding import NOTE, OK, PROBLEM, WARNING, Finding
from django_dbqueue.states.counts import grouped


class Text(NamedTuple):
    """Level, and translatable texts with the judgement's words."""

    level: str
    found: Promise
    do: Promise | str = ""


TEXTS: Final[Mapping[str, Text]] = {
    "InnoDB confirms late": Text(
        OK,
        _("A commit is on disk when the server confirms it (innodb_flush_log_at_trx_commit is %(flush)s, %(logs)s)."),
    ),
    "synced log": Text(OK, _("sync_binlog is %(sync)s")),
    "no log": Text(OK, _("no binary log")),
    "PostgreSQL confirms late": Text(
        OK,
        _("A commit is on disk when the server confirms it (synchronous_commit is %(commit)s, fsync is %(fsync)s)."),
    ),
    "SQLite confirms late": Text(
        OK, _("A commit is on disk when the server confirms it (PRAGMA synchronous is %(level)s).")
    ),
    "in memory": Text(
        PROBLEM,
        _("The database is in memory: it disappears with its process, and no worker can share it."),
        _("Set NAME in DATABASES[%(alias)r] to a file."),
    ),
    "logs ahead": Text(OK, _("Readers and the writer don't wait for each other (PRAGMA journal_mode is %(mode)s).")),
    "writable": Text(OK, _("The database accepts writes.")),
    "read only": Text(
        PROBLEM,
        _("The database refuses writes (%(names)s): nothing can be enqueued, claimed or acknowledged here."),
        _("Point HOST and PORT to the primary, or make this server writable. A replica can't hold a queue."),
    ),
    "RETURNING": Text(OK, _("SQLite allows one writer at a time, so there is nothing to skip. It supports RETURNING.")),
    "logged well": Text(OK, _("The format of the binary log is %(form)s.")),
    "off": Text(OK, _("off")),
    "one writer": Text(OK, _("The server is not part of a cluster with several writers (Galera, Group Replication).")),
    "large packets": Text(
        OK,
        _("Packets of up to %(packet)s bytes (max_allowed_packet) hold every payload that MAX_PAYLOAD_BYTES allows."),
    ),
    "encoding": Text(OK, _("The database's encoding is %(encoding)s.")),
    "characters": Text(OK, _("Sessions use the character set %(charset)s.")),
    "strict": Text(OK, _("Sessions are strict: values that don't fit are refused, not truncated.")),
    "isolated well": Text(OK, _("Transactions are READ COMMITTED.")),
    "locks at once": Text(OK, _("Transactions take the write lock as they begin.")),
    "waits briefly": Text(
        NOTE,
        _("A writer waits %(seconds)g seconds for another, then fails with 'database is locked'."),
        _("Set 'timeout': %(wanted)s in OPTIONS."),
    ),
    "read timeout": Text(OK, _("The client waits %(timeout)s seconds for an answer (read_timeout).")),
    "read timeout too short": Text(
        WARNING,
        _(
            "read_timeout (%(timeout)s s) is not longer than innodb_lock_wait_timeout (%(wait)s s): a session that "
            "waits for a row lock loses its connection, and never learns the outcome, before the server ends the wait."
        ),
        _("Set read_timeout in OPTIONS to more than innodb_lock_wait_timeout."),
    ),
    "TCP timeout": Text(
        OK, _("The client gives up on an unresponsive server after %(timeout)s ms (tcp_user_timeout).")
    ),
    "no TCP timeout": Text(
        NOTE,
        _(
            "OPTIONS has no tcp_user_timeout: if the server vanishes without closing the connection, only the "
            "operating system's keepalive notices, by default after two hours."
        ),
        _("Set 'tcp_user_timeout': 60_000 in OPTIONS, in milliseconds."),
    ),
    "short statements": Text(
        WARNING,
        _("statement_timeout cancels statements after %(limit)s ms: maintenance of a large queue may never finish."),
        _("Set a longer one for the workers' account: ALTER ROLE %(account)s SET statement_timeout = '60s'."),
    ),
    "InnoDB": Text(OK, _("All tables use InnoDB.")),
}


def findings(judgements: Iterable[Judgement]) -> Iterator[Finding]:
    """Yield what judges found, in the reader's language."""
    for code, words in judgements:
        if code in TEXTS:
            level, found, do = TEXTS[code]
            filled = {name: _shown(word) for name, word in words.items()}
            yield Finding(level=level, found=str(found) % filled, do=str(do) % filled)


def _shown(word: object) -> object:
    if isinstance(word, Judgement):
        [finding] = findings([word])
        return finding.found
    return grouped(word) if isinstance(word, int) else word
