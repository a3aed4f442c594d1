"""How the history gets its partitions, and loses them again, without a copy: DDL that an operator orders once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.partitions_sql import MySQLPartitionsSQL, PostgreSQLPartitionsSQL, until
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement

TABLE: Final = Server.archived
NEW_TABLE: Final = f"{TABLE}_new"
"""The table that is to take the place of the history, on MySQL and MariaDB."""
OLD_TABLE: Final = f"{TABLE}_old"
"""The one whose place was taken."""
CHECK: Final = "dbqueue_history_until"
"""The constraint that shows PostgreSQL, before the swap, that all rows belong into the first partition."""


# -- MySQL and MariaDB ------------------------------------------------------------------------------------------------


def mysql_tables() -> Statement:
    """Read which of the three tables there are."""
    return Statement(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() "
        "AND TABLE_NAME IN (%s, %s, %s)",
        (TABLE, NEW_TABLE, OLD_TABLE),
    )


def mysql_obstacles() -> Statement:
    """Read what would not come along: triggers of the table, and foreign keys that refer to it."""
    return Statement(
        "SELECT CONCAT('trigger ', TRIGGER_NAME) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() "
        "AND EVENT_OBJECT_TABLE = %s UNION ALL SELECT CONCAT('foreign key ', CONSTRAINT_NAME) "
        "FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = DATABASE() AND REFERENCED_TABLE_NAME = %s",
        (TABLE, TABLE),
    )


def any_row(table: str) -> Statement:
    """Read one row if the table has any."""
    return Statement(f"SELECT 1 FROM {table} LIMIT 1", ())


def highest_id(table: str) -> Statement:
    """Read the newest id; NULL if the table is empty."""
    return Statement(f"SELECT MAX(id) FROM {table}", ())


def mysql_definition(table: str) -> Statement:
    """Read name and definition of a table, with its next id: information_schema remembers an old one."""
    # The words for MariaDB stand in a comment that MySQL skips: NO_TABLE_OPTIONS, which it has not, hides the next id
    return Statement(f"/*M!100200 SET STATEMENT sql_mode = '' FOR */ SHOW CREATE TABLE {table}", ())


def mysql_like() -> Statement:
    """Create the new table like the history."""
    return Statement(f"CREATE TABLE {NEW_TABLE} LIKE {TABLE}", ())


def mysql_partition(uppers: Sequence[int]) -> Statement:
    """Give the new table its partitions."""
    return Statement(f"ALTER TABLE {NEW_TABLE} PARTITION BY RANGE (id) ({MySQLPartitionsSQL.ranges(uppers)})", ())


def mysql_unpartition() -> Statement:
    """Take them away."""
    return Statement(f"ALTER TABLE {NEW_TABLE} REMOVE PARTITIONING", ())


def mysql_rename(one: str, other: str) -> Statement:
    """Rename a table."""
    return Statement(f"RENAME TABLE {one} TO {other}", ())


def mysql_exchange(partitioned: str, partition: str, table: str) -> Statement:
    """Let a partition and a table exchange their rows; MariaDB before 11.4 reads each of them to check its id."""
    # The words for MySQL stand in a comment that MariaDB skips: it ignores those for 5.7 and later
    return Statement(
        f"ALTER TABLE {partitioned} EXCHANGE PARTITION {partition} WITH TABLE {table} "
        "/*!80000 WITHOUT VALIDATION */ /*M!110400 WITHOUT VALIDATION */",
        (),
    )


def mysql_set_next_id(table: str, next_id: int) -> Statement:
    """Let a table continue with an id."""
    return Statement(f"ALTER TABLE {table} AUTO_INCREMENT = {next_id:d}", ())


def drop_table(table: str) -> Statement:
    """Drop a table."""
    return Statement(f"DROP TABLE {table}", ())


# -- PostgreSQL -------------------------------------------------------------------------------------------------------


def postgresql_hold() -> Statement:
    """Take the lock of those who change partitions for the length of the session; true if it was free."""
    return Statement("SELECT pg_try_advisory_lock(%s)", (PostgreSQLPartitionsSQL.lock,))


def postgresql_let_go() -> Statement:
    """Let the next one in."""
    return Statement("SELECT pg_advisory_unlock(%s)", (PostgreSQLPartitionsSQL.lock,))


def postgresql_obstacles() -> Statement:
    """Read what would not come along: triggers, views, policies, publications and foreign keys."""
    this = f"to_regclass('{TABLE}')"
    return Statement(
        f"SELECT 'trigger ' || tgname FROM pg_trigger WHERE tgrelid = {this} AND NOT tgisinternal "
        f"UNION ALL SELECT 'policy ' || polname FROM pg_policy WHERE polrelid = {this} "
        "UNION ALL SELECT 'publication ' || pubname FROM pg_publication_rel "
        f"JOIN pg_publication ON pg_publication.oid = prpubid WHERE prrelid = {this} "
        f"UNION ALL SELECT 'foreign key ' || conname FROM pg_constraint WHERE contype = 'f' AND confrelid = {this} "
        "UNION ALL SELECT DISTINCT 'view ' || pg_rewrite.ev_class::regclass::text FROM pg_depend "
        f"JOIN pg_rewrite ON pg_rewrite.oid = objid WHERE classid = 'pg_rewrite'::regclass AND refobjid = {this}",
        (),
    )


def postgresql_find_check() -> Statement:
    """Read one row if the constraint stands."""
    return Statement(f"SELECT 1 FROM pg_constraint WHERE conrelid = to_regclass('{TABLE}') AND conname = '{CHECK}'", ())


def postgresql_add_check(upper: int) -> Statement:
    """Let no row come whose id is not below ``upper``; rows that are there are not looked at."""
    return Statement(f"ALTER TABLE {TABLE} ADD CONSTRAINT {CHECK} CHECK (id < {upper:d}) NOT VALID", ())


def postgresql_validate_check() -> Statement:
    """Look at those, while others read and write."""
    return Statement(f"ALTER TABLE {TABLE} VALIDATE CONSTRAINT {CHECK}", ())


def postgresql_drop_check(table: str) -> Statement:
    """Drop the constraint if it stands."""
    return Statement(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {CHECK}", ())


def postgresql_indexes() -> Statement:
    """Read name, definition, and whether it is the primary key's, of each index."""
    return Statement(
        "SELECT relname, pg_get_indexdef(indexrelid), indisprimary FROM pg_index JOIN pg_class "
        f"ON pg_class.oid = indexrelid WHERE indrelid = '{TABLE}'::regclass ORDER BY indexrelid",
        (),
    )


def postgresql_counter() -> Statement:
    """Read schema and name of the sequence of the ids, and whether it is an identity's."""
    return Statement(
        "SELECT nspname, relname, attidentity <> '' FROM pg_attribute JOIN pg_class "
        "ON pg_class.oid = pg_get_serial_sequence(attrelid::regclass::text, attname)::regclass JOIN pg_namespace "
        f"ON pg_namespace.oid = relnamespace WHERE attrelid = '{TABLE}'::regclass AND attname = 'id'",
        (),
    )


def postgresql_next_id(counter: str) -> Statement:
    """Read the id that comes next."""
    return Statement(f"SELECT last_value + is_called::int FROM {counter}", ())


def postgresql_begin_partitioned(first: str) -> list[Statement]:
    """Create the partitioned table like the one that becomes its first partition, and leave it the ids to it."""
    options = "INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMMENTS INCLUDING COMPRESSION"
    return [
        Statement(f"CREATE TABLE {TABLE} (LIKE {first} {options}) PARTITION BY RANGE (id)", ()),
        postgresql_drop_check(TABLE),
    ]


def postgresql_free_ids(table: str, counter: str, *, is_identity: bool) -> list[Statement]:
    """Take a table's sequence away, which only its ids used."""
    if is_identity:
        return [Statement(f"ALTER TABLE {table} ALTER COLUMN id DROP IDENTITY", ())]
    return [postgresql_drop_default(table), Statement(f"DROP SEQUENCE {counter}", ())]


def postgresql_drop_default(table: str) -> Statement:
    """Let a table draw no ids any more."""
    return Statement(f"ALTER TABLE {table} ALTER COLUMN id DROP DEFAULT", ())


def postgresql_index_again(name: str, definition: str, is_primary: bool) -> Statement:
    """Create an index of the history on the partitioned table."""
    if is_primary:
        return Statement(f'ALTER TABLE {TABLE} ADD CONSTRAINT "{name}" PRIMARY KEY (id)', ())
    return Statement(definition, ())


def postgresql_attached_indexes(partition: str) -> Statement:
    """Read the name of each index of a partition, and the name of the whole table's index that it is part of."""
    return Statement(
        "SELECT part.relname, whole.relname FROM pg_index JOIN pg_inherits ON inhrelid = indexrelid "
        "JOIN pg_class AS part ON part.oid = indexrelid JOIN pg_class AS whole ON whole.oid = inhparent "
        "WHERE indrelid = %s::regclass",
        (partition,),
    )


def postgresql_count_on(counter: str) -> list[Statement]:
    """Give the partitioned table a sequence for its ids: before PostgreSQL 17 such a table can have no identity."""
    return [
        Statement(f"CREATE SEQUENCE {counter} AS bigint OWNED BY {TABLE}.id", ()),
        Statement(f"ALTER TABLE {TABLE} ALTER COLUMN id SET DEFAULT nextval('{counter}'::regclass)", ()),
    ]


def postgresql_identity(counter: str) -> Statement:
    """Give the table its ids as Django makes them."""
    return Statement(
        f"ALTER TABLE {TABLE} ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME {counter})", ()
    )


def postgresql_set_next_id(counter: str, next_id: int) -> Statement:
    """Let a sequence continue with an id."""
    return Statement("SELECT setval(%s::regclass, %s, false)", (counter, next_id))


def postgresql_rename(one: str, other: str) -> Statement:
    """Rename a table."""
    return Statement(f"ALTER TABLE {one} RENAME TO {other}", ())


def postgresql_rename_index(one: str, other: str) -> Statement:
    """Rename an index, and the constraint that it belongs to."""
    return Statement(f'ALTER INDEX "{one}" RENAME TO "{other}"', ())


def postgresql_attach(first: str, upper: int) -> Statement:
    """Make a table the first partition, with its indexes."""
    return Statement(f"ALTER TABLE {TABLE} ATTACH PARTITION {first} FOR VALUES FROM (MINVALUE) TO ({upper:d})", ())


def postgresql_detach(first: str) -> Statement:
    """Make the first partition a table of its own."""
    return Statement(f"ALTER TABLE {TABLE} DETACH PARTITION {first}", ())


_GRANTEE: Final = "CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END"
_GRANTABLE: Final = "CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END"


def postgresql_rights(table: str) -> Statement:
    """Read the statements that give a table's rights, columns' included, and its owner, to the history."""
    return Statement(
        "WITH of AS (SELECT oid, relowner, relacl FROM pg_class WHERE oid = %s::regclass) "
        f"SELECT format('ALTER TABLE {TABLE} OWNER TO %%I', pg_get_userbyid(relowner)) FROM of "
        "WHERE pg_get_userbyid(relowner) <> current_user "
        f"UNION ALL SELECT format('GRANT %%s ON {TABLE} TO %%s%%s', privilege_type, {_GRANTEE}, {_GRANTABLE}) "
        "FROM of, aclexplode(relacl) WHERE grantee <> relowner "
        f"UNION ALL SELECT format('GRANT %%s (%%I) ON {TABLE} TO %%s%%s', privilege_type, attname, {_GRANTEE}, "
        f"{_GRANTABLE}) FROM of JOIN pg_attribute ON attrelid = of.oid, aclexplode(attacl) WHERE grantee <> relowner",
        (table,),
    )


def postgresql_no_rights(table: str) -> Statement:
    """Read the statements that take a table's rights, columns' included, from all but its owner."""
    return Statement(
        "WITH of AS (SELECT oid, relowner, relacl FROM pg_class WHERE oid = %s::regclass) "
        f"SELECT format('REVOKE ALL ON %%s FROM %%s CASCADE', %s::text, {_GRANTEE}) FROM ("
        "SELECT grantee FROM of, aclexplode(relacl) WHERE grantee <> relowner UNION SELECT grantee FROM of "
        "JOIN pg_attribute ON attrelid = of.oid, aclexplode(attacl) WHERE grantee <> relowner) AS others",
        (table, table),
    )


def postgresql_rights_to_count(table: str, counter: str) -> Statement:
    """Read the statements that let those who may insert draw ids."""
    return Statement(
        f"SELECT DISTINCT format('GRANT USAGE ON SEQUENCE %%s TO %%s%%s', %s::text, {_GRANTEE}, {_GRANTABLE}) "
        "FROM pg_class, aclexplode(relacl) WHERE pg_class.oid = %s::regclass AND privilege_type = 'INSERT' "
        "AND grantee <> relowner",
        (counter, table),
    )


def first_table(upper: int) -> str:
    """Return the table of PostgreSQL's first partition."""
    return f"{TABLE}_{until(upper)}"
