"""All checks, in the order in which they are reported."""

from __future__ import annotations

from typing import Final

from django_dbqueue.doctor import claims, clocks, schedules, servers, sessions, tables, versions, workers
from django_dbqueue.doctor.checking import Check

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
    sessions.characters,
    sessions.sql_mode,
    sessions.isolation,
    sessions.transaction_mode,
    sessions.read_timeout_on_mysql,
    sessions.read_timeout_on_postgresql,
    sessions.idle_timeout,
    sessions.lock_wait,
    sessions.pooler,
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
    sessions.sight,
    sessions.no_sight,
    schedules.schedules,
    workers.workers,
    workers.unserved,
)
