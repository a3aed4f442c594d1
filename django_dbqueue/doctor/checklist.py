"""All checks, in the order in which they are reported."""

from __future__ import annotations

from typing import Final

from django_dbqueue.doctor import (
    claims,
    clocks,
    schedule_checks,
    servers,
    session_checks,
    tables,
    versions,
    worker_checks,
)
from django_dbqueue.doctor.check import Check

CHECKS: Final[tuple[Check, ...]] = (
    servers.durability_on_mysql,
    servers.durability_on_postgresql,
    servers.durability_on_sqlite,
    servers.writable_on_mysql,
    servers.writable_on_postgresql,
    servers.writable_on_sqlite,
    servers.journal_mode,
    servers.binary_log,
    servers.cluster,
    servers.packet_size,
    servers.encoding,
    session_checks.characters,
    session_checks.sql_mode,
    session_checks.isolation,
    session_checks.transaction_mode,
    session_checks.read_timeout_on_mysql,
    session_checks.read_timeout_on_postgresql,
    session_checks.idle_timeout,
    session_checks.lock_wait,
    session_checks.pooler,
    clocks.clocks,
    clocks.time_zones,
    tables.migrations,
    tables.storage_on_mysql,
    tables.storage_on_postgresql,
    tables.collations,
    tables.indexes,
    tables.rights_on_mysql,
    tables.rights_on_postgresql,
    servers.skip_locked,
    servers.returning,
    claims.claim_plans,
    versions.history,
    versions.dead_rows,
    versions.write_ahead_log,
    versions.oldest_on_mysql,
    versions.oldest_on_postgresql,
    session_checks.sight,
    session_checks.no_sight,
    schedule_checks.schedules,
    worker_checks.workers,
    worker_checks.unserved,
)
