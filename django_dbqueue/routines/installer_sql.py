"""What installing the routines asks a server, and how they are removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.own_tables import Tables
from django_dbqueue.databases.statement import Statement, holes
from django_dbqueue.routines.rendering import MARK, VIEW, Routine


def installed_on_mysql(names: Sequence[str]) -> Statement:
    """(kind, name, signature, comment, definer, whether that is us) of objects with these names, or with our mark.

    A view has its comment in its text, and calls nothing.
    """
    return Statement(
        "SELECT ROUTINE_TYPE, ROUTINE_NAME, ROUTINE_NAME, ROUTINE_COMMENT, DEFINER, "
        "DEFINER = CONVERT(CURRENT_USER() USING utf8mb4) COLLATE utf8mb4_bin FROM information_schema.ROUTINES "
        "WHERE ROUTINE_SCHEMA = DATABASE() "
        f"AND (ROUTINE_NAME IN ({holes(len(names))}) OR ROUTINE_COMMENT LIKE %s) "
        "UNION ALL SELECT CASE t.TABLE_TYPE WHEN 'VIEW' THEN 'VIEW' ELSE 'TABLE' END, t.TABLE_NAME, t.TABLE_NAME, "
        "COALESCE(REGEXP_SUBSTR(v.VIEW_DEFINITION, %s), ''), COALESCE(v.DEFINER, ''), 1 "
        "FROM information_schema.TABLES AS t "
        "LEFT JOIN information_schema.VIEWS AS v ON v.TABLE_SCHEMA = t.TABLE_SCHEMA AND v.TABLE_NAME = t.TABLE_NAME "
        "WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME = %s",
        (*names, f"{MARK} %", f"{MARK} [0-9a-f]{{16}}", VIEW),
    )


def installed_on_postgresql(names: Sequence[str], schema: str) -> Statement:
    """(kind, name, signature, comment, owner, whether the owner is trusted) of objects with these names, or our mark.

    They are looked up in the table's schema. Trusted are the current account, the table's owner, and superusers.
    """
    table = "(SELECT t.relowner FROM pg_class AS t WHERE t.relname = %s AND t.relnamespace = %s::regnamespace)"
    trusted = f"(SELECT r.rolsuper OR r.rolname = current_user OR r.oid = {table} FROM pg_roles AS r WHERE r.oid = "
    return Statement(
        "SELECT CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END, p.proname, "
        "concat(p.pronamespace::regnamespace, '.', quote_ident(p.proname), '(', oidvectortypes(p.proargtypes), ')'), "
        f"COALESCE(obj_description(p.oid, 'pg_proc'), ''), p.proowner::regrole, {trusted} p.proowner) "
        "FROM pg_proc AS p WHERE p.pronamespace = %s::regnamespace "
        f"AND (p.proname IN ({holes(len(names))}) OR obj_description(p.oid, 'pg_proc') LIKE %s) "
        "UNION ALL SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, c.relname, "
        "concat(c.relnamespace::regnamespace, '.', quote_ident(c.relname)), "
        f"COALESCE(obj_description(c.oid, 'pg_class'), ''), c.relowner::regrole, {trusted} c.relowner) "
        "FROM pg_class AS c "
        "WHERE c.relnamespace = %s::regnamespace AND c.relname = %s",
        (Tables.message, schema, schema, *names, f"{MARK} %", Tables.message, schema, schema, VIEW),
    )


def schema_of_table() -> Statement:
    """Read the schema in which PostgreSQL finds the message table (or else creates tables), quoted for SQL."""
    return Statement(
        "SELECT COALESCE((SELECT c.relnamespace FROM pg_class AS c WHERE c.oid = to_regclass(%s)), "
        "to_regnamespace(quote_ident(current_schema()))::oid)::regnamespace::text",
        (Tables.message,),
    )


SAFE_PATH: Final = "pg_catalog, pg_temp"
"""Where unqualified names are resolved when routines are created: where only superusers create objects."""


def unsafe_on_postgresql() -> Statement:
    """Signatures of routines that we created next to the table, before names were resolved on the safe path alone."""
    return Statement(
        "SELECT p.oid::regprocedure::text FROM pg_proc AS p WHERE p.prosecdef AND p.pronamespace = "
        "(SELECT c.relnamespace FROM pg_class AS c WHERE c.oid = to_regclass(%s)) "
        "AND obj_description(p.oid, 'pg_proc') LIKE %s AND NOT %s = ANY(COALESCE(p.proconfig, '{}')) ORDER BY 1",
        (Tables.message, f"{MARK} %", f"search_path={SAFE_PATH}"),
    )


def path() -> Statement:
    """Read the session's search path."""
    return Statement("SELECT current_setting('search_path')", ())


def set_path(path: str) -> Statement:
    """Change it for the rest of the transaction."""
    return Statement("SELECT set_config('search_path', %s, true)", (path,))


def drop(kind: str, signature: str) -> Statement:
    """Drop one."""
    return Statement(f"DROP {kind} IF EXISTS {signature}", ())


def random_bytes() -> Statement:
    """Call the function for random bytes: an error, if the server has none."""
    return Statement("SELECT RANDOM_BYTES(1)", ())


def probe(name: str) -> tuple[Statement, Statement]:
    """Create a function that does nothing, and drop it: shows what may be created before anything is touched."""
    make = f"CREATE FUNCTION {name}() RETURNS INT NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER RETURN 1"
    return Statement(make, ()), drop("FUNCTION", name)


STRICT_MODE = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
"""The sql_mode that MySQL and MariaDB keep with each routine: nothing is cut off silently in it."""


def sql_mode() -> Statement:
    """Read the session's mode."""
    return Statement("SELECT @@SESSION.sql_mode", ())


def set_sql_mode(mode: str) -> Statement:
    """Change the session's mode."""
    return Statement("SET SESSION sql_mode = %s", (mode,))


def lock_on_mysql(seconds: int) -> tuple[Statement, Statement]:
    """Wait for a concurrent installation into this database (1 when the lock is ours), and let the next one in."""
    name = f"CONCAT('{MARK}.', LEFT(SHA2(DATABASE(), 256), 32))"
    return Statement(f"SELECT GET_LOCK({name}, %s)", (seconds,)), Statement(f"SELECT RELEASE_LOCK({name})", ())


def lock_on_postgresql() -> Statement:
    """Wait for a concurrent installation, and hold the lock for this transaction."""
    return Statement("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"{MARK}.routines",))


def grants_on_mysql(routine: Routine) -> Statement:
    """(user, host, may grant it) of accounts that may execute it by an explicit grant; DROP removes these."""
    return Statement(
        "SELECT User, Host, FIND_IN_SET('Grant', Proc_priv) > 0 FROM mysql.procs_priv WHERE Db = DATABASE() "
        "AND Routine_name = %s AND Routine_type = %s AND FIND_IN_SET('Execute', Proc_priv)",
        (routine.name, routine.kind),
    )


def grant_on_mysql(routine: Routine, user: str, host: str, may_grant: object) -> Statement:
    """Let this account execute it."""
    option = " WITH GRANT OPTION" if may_grant else ""
    return Statement(f"GRANT EXECUTE ON {routine.kind} {routine.signature} TO %s@%s{option}", (user, host))
