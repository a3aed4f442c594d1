"""System checks: what ``manage.py check`` says of the settings, and with ``--database`` of the server.

A worker runs the same ones as it starts, and refuses on errors (``blocking_errors``). An id in
``SILENCED_SYSTEM_CHECKS`` silences a check in both places.

| id   | what is wrong                                                         |
|------|-----------------------------------------------------------------------|
| E001 | ``DBQUEUE`` is no dict                                                |
| E002 | a setting, or an option of a queue, that doesn't exist                |
| E003 | a value of the wrong type or out of its bounds                        |
| E004 | a name in ``QUEUES`` that no queue can have                           |
| E005 | an alias that is not in ``DATABASES``                                 |
| E006 | a schedule that can't be as it is declared                            |
| E007 | a schedule, and no library that reads cron expressions                |
| E008 | a redaction that can't be imported                                    |
| E009 | tracing asked for, and no OpenTelemetry                               |
| W001 | ``backoff_max`` smaller than ``backoff``                              |
| W002 | a lease too short to be extended in time                              |
| W004 | ``group_burst`` not above ``group_limit``                             |
| E010 | the database can't be asked                                           |
| E011 | a database that the queue can't live in                               |
| E012 | a server or a driver too old for the queue's statements               |
| E013 | a table without transactions (MyISAM, Aria, MEMORY)                   |
| E014 | a session that cuts values instead of refusing them                   |
| E015 | a binary log of statements                                            |
| E016 | connections that begin with autocommit off                           |
| E017 | a server whose sessions begin, or are, with autocommit off           |
| E018 | an SQLite file that this account can't write                          |
| E019 | a database with only some of the migrations that were squashed        |
| W010 | commits that a crash can take back                                    |
| W011 | transactions that are not READ COMMITTED                              |
| W012 | no read timeout                                                       |
| W013 | payloads allowed that the server's packets can't carry                |
| W014 | SQLite transactions that don't take the write lock at once            |
| W015 | SQLite without a write-ahead log                                      |
| W016 | text that can't hold every character                                  |
| W017 | a cluster with several writers                                        |
| W018 | a schema in which others may make things (PostgreSQL)                 |
| W019 | stored routines of an older version that can be taken over            |
| E020 | a queue with tasks that has a consumer too                            |
| E021 | an option of a backend of tasks that can't be                         |
| E022 | a name in such a backend's ``QUEUES`` that no queue can have          |
| E023 | a backend of tasks that can't be imported                             |
| E024 | a module of consumers that can't be imported                          |
| E025 | tables under other names than the queue's statements use              |
| E026 | a consumer or tasks that have the queue of bulk operations            |
| W020 | tasks whose results can't be kept, since acked messages are deleted   |
| W021 | a module of consumers that queries the database while it is imported  |
| W022 | tasks without a queue go to one that has a consumer                   |
| W023 | a foreign key to rows that the queue deletes, which keeps them        |
| W024 | a function's cron, and no library that reads cron expressions         |
| W025 | a module of tasks that can't be imported, whose crons are unknown     |
| W026 | a platform on which no worker can run                                 |
| W027 | options for a queue that has no consumer, while a like name has one   |

``E0xx`` is short for ``dbqueue.E0xx``.
"""

from __future__ import annotations

from django.core import checks

from django_dbqueue.checks.database import check_alias, check_databases
from django_dbqueue.checks.extras_checks import (
    check_consumers,
    check_extras,
    check_modules_of_tasks,
    check_platform,
    check_queues_of_consumers,
    check_task_backends,
)
from django_dbqueue.checks.foreign_key_checks import check_foreign_keys
from django_dbqueue.checks.settings_checks import check_settings
from django_dbqueue.checks.table_names import check_table_names
from django_dbqueue.tasks.backends_in_use import backends, let_django_check_them

__all__ = ["blocking_errors", "check_platform", "check_project", "register"]


def register() -> None:
    """Make the checks known to Django."""
    checks.register(check_settings)
    checks.register(check_table_names)
    checks.register(check_extras)
    checks.register(check_platform)
    checks.register(check_foreign_keys)
    checks.register(check_task_backends)
    checks.register(check_modules_of_tasks)
    checks.register(check_consumers)
    checks.register(check_queues_of_consumers)
    checks.register(check_databases, checks.Tags.database)
    let_django_check_them()


def check_project() -> list[checks.CheckMessage]:
    """Return what is wrong with the settings and with what tasks and consumers declare, whatever the database."""
    of_tasks = check_task_backends() or [message for each in backends().values() for message in each.check()]
    of_tasks += check_modules_of_tasks()
    return [
        *check_settings(),
        *check_table_names(),
        *check_extras(),
        *check_platform(),
        *check_queues_of_consumers(),
        *of_tasks,
    ]


def blocking_errors(alias: str) -> list[checks.CheckMessage]:
    """Return what forbids a worker to run on this database: errors that nobody silenced."""
    found = [*check_project(), *check_alias(alias)]
    return [message for message in found if message.is_serious() and not message.is_silenced()]
