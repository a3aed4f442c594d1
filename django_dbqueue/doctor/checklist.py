"""All checks, in the order in which they are reported."""

from __future__ import annotations

from typing import Final

from django_dbqueue.doctor import (
    archive_checks,
    claim_checks,
    clocks,
    group_checks,
    rights,
    schedule_checks,
    servers,
    session_checks,
    tables,
    task_checks,
    versions,
    worker_checks,
)
from django_dbqueue.doctor.check import Check

CHECKS: Final[tuple[Check, ...]] = (
    servers.durability,
    servers.writable,
    servers.journal_mode,
    servers.binary_log,
    servers.cluster,
    servers.packet_size,
    servers.characters,
    session_checks.sql_mode,
    session_checks.isolation,
    session_checks.transaction_mode,
    session_checks.read_timeout,
    session_checks.idle_timeout,
    session_checks.lock_wait,
    session_checks.pooler,
    clocks.clocks,
    clocks.time_zones,
    tables.migrations,
    tables.transactions,
    tables.logged,
    tables.collations,
    tables.indexes,
    rights.tried,
    rights.queried,
    servers.skip_locked,
    servers.returning,
    claim_checks.claim_plans,
    versions.history,
    versions.dead_rows,
    versions.write_ahead_log,
    versions.oldest,
    archive_checks.archive,
    session_checks.sight,
    session_checks.no_sight,
    schedule_checks.schedules,
    worker_checks.workers,
    worker_checks.unserved,
    group_checks.groups,
    task_checks.tasks,
    task_checks.results,
)
