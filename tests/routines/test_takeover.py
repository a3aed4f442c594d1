"""A role that may make functions in the queue's schema tries to have the routines run them by their owner's rights.

The attacker makes what PostgreSQL would rather call than its own: functions and operators whose arguments match better,
and namesakes of ours. Each runs as whoever calls it, so that inside of a routine it has the installer's rights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import product

import pytest
from django.db import connection

from django_dbqueue.models import Message
from django_dbqueue.routines import installation
from django_dbqueue.routines.rendering import NAMES
from django_dbqueue.sessions.django_session import DjangoSession
from tests.factories import QUEUE
from tests.routines.accounts import account, database, run
from tests.routines.client import Client
from tests.routines.test_grants import granted

TYPES = [
    "text",
    "varchar",
    "bigint",
    "integer",
    "smallint",
    "double precision",
    "timestamptz",
    "bool",
    "bigint[]",
    "uuid",
]
OPERATORS = ["=", "<>", "<", ">", "<=", ">=", "+", "-", "||", "&", "!~", "~"]
EXPLOIT = "EXECUTE format('ALTER ROLE %I SUPERUSER', session_user)"
LOUD = "RAISE EXCEPTION 'runs as %', current_user"


def attacker() -> AbstractContextManager[tuple[Client, str]]:
    """A session, and the name, of a role that has the grants of the page and may CREATE in the schema of the tables."""
    return attacker_of(*granted("billing"), "CREATE ON SCHEMA public", f"TEMPORARY, CREATE ON DATABASE {database()}")


@contextmanager
def attacker_of(*rights: str) -> Iterator[tuple[Client, str]]:
    """The same with these rights."""
    with account(*rights) as who:
        client = Client(connection.settings_dict, who)
        try:
            yield client, who[0]
        finally:
            client.close()


def body(trick: str) -> str:
    """What runs for the attacker only where the routines' owner would be the one that runs it."""
    return f"LANGUAGE plpgsql AS $$ BEGIN IF current_user <> session_user THEN {trick}; END IF; RETURN NULL; END $$"


def is_superuser(name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) %s::name", [name])
        return bool(cursor.fetchone()[0])


def use_every_routine(client: Client) -> None:
    """Go through each branch of the routines; what fails in one of them must not keep the next from being tried."""
    deep = "[" * 250 + "]" * 250 + " " * 400
    tries = [
        (f"SELECT public.put_message_in_queue('{QUEUE}', '{{\"a\": 1}}', 1::bigint, 0::bigint)"),
        (f"SELECT public.put_message_in_queue('{QUEUE}', '{deep}', NULL, NULL)"),
        (f"SELECT public.put_message_in_queue('{QUEUE}', 'x', 2::bigint, 30::bigint)"),
        (f"SELECT public.put_message_in_queue('{QUEUE}', 'x', -2::bigint, -30::bigint)"),
        (f"SELECT * FROM public.get_message_from_queue('{QUEUE}')"),
        (f"SELECT * FROM public.get_message_from_queue('{QUEUE}')"),
        (f"SELECT * FROM public.claim_messages('{QUEUE}', 3, 0)"),
        (f"SELECT * FROM public.claim_messages('{QUEUE}', 3, NULL)"),
        (f"SELECT public.put_message_in_group('{QUEUE}', 'x', 1::bigint, 0::bigint, 'a')"),
        (f"SELECT public.put_message_in_group('{QUEUE}', 'x', 2::bigint, 30::bigint, 'a')"),
        (f"SELECT public.put_message_in_group('{QUEUE}', 'x', 2::bigint, 30::bigint, '*')"),
        (f"SELECT public.kick_group('{QUEUE}', 'a'), public.kick_group('{QUEUE}', NULL)"),
        (f"SELECT * FROM public.claim_messages('{QUEUE}', 9, 30)"),
        (f"SELECT * FROM public.claim_messages('{QUEUE}', 9, 30)"),
        ("SELECT public.nack_message(m.id, 1, 5), public.nack_message(m.id, 1, NULL) FROM public.main_queue AS m"),
        ("SELECT public.extend_message(m.id, 1, 5), public.extend_message(m.id, 1, NULL) FROM public.main_queue AS m"),
        ("SELECT public.ack_message(m.id, 1) FROM public.main_queue AS m"),
        ("SELECT public.delete_message_from_queue(m.id) FROM public.main_queue AS m"),
    ]
    for sql in tries:
        error_text = ""
        try:
            client.run(sql.replace("%", "%%"))
        except client.Error as error:
            error_text = str(error)
        assert "runs as" not in error_text


def shadows(client: Client, trick: str) -> int:
    """Make a better match of each function and operator that the routines' texts name; return how many there are."""
    text = "\n".join(one.statements[0] for one in installation.wanted_routines(DjangoSession("default")))
    words = set(re.findall(r"\b([a-z_]+)\(", text)) - set(NAMES)
    known = {row["proname"] for row in client.run("SELECT DISTINCT proname FROM pg_catalog.pg_proc")} | words
    made = 0
    arguments = [()] + [(one,) for one in TYPES] + list(product(TYPES, repeat=2))
    for name in sorted(words & known):
        for types in [*arguments, ("text",) * 3, ("text",) * 4]:
            made += _made(client, f'CREATE FUNCTION public."{name}"({", ".join(types)}) RETURNS text {body(trick)}')
    for types in product(TYPES, repeat=2):
        one, other = types
        client.run(
            f"CREATE OR REPLACE FUNCTION public.answer({one}, {other}) RETURNS bool {body(trick)}".replace("%", "%%")
        )
        for operator in OPERATORS:
            made += _made(
                client,
                f"CREATE OPERATOR public.{operator} (FUNCTION = public.answer, LEFTARG = {one}, RIGHTARG = {other})",
            )
    return made


def namesakes(client: Client, trick: str) -> int:
    """Make our own helpers anew for arguments of other types."""
    made = 0
    helpers = [name for name in NAMES if name.startswith("dbqueue_")]
    for name, types in product(helpers, [(), *((one,) for one in TYPES), *product(TYPES, repeat=2)]):
        made += _made(client, f"CREATE FUNCTION public.{name}({', '.join(types)}) RETURNS text {body(trick)}")
    for helper, types in product(
        ["dbqueue_claim", "dbqueue_check_seconds"], product(["text", "varchar"], TYPES, TYPES)
    ):
        made += _made(client, f"CREATE FUNCTION public.{helper}({', '.join(types)}) RETURNS text {body(trick)}")
    of_groups = [
        ("dbqueue_hand_over", product(["text", "varchar"], ["bigint", "integer"], ["bigint", "integer"], ["bool"])),
        ("dbqueue_lane_moved", product(["bigint", "integer"], ["bigint", "integer"], ["bool", "text"], ["bool"])),
        ("dbqueue_put_in_lane", product(["text", "varchar"], ["text"], *[["bigint", "integer"]] * 2, ["varchar"])),
    ]
    for helper, types in ((helper, types) for helper, kinds in of_groups for types in kinds):
        made += _made(client, f"CREATE FUNCTION public.{helper}({', '.join(types)}) RETURNS text {body(trick)}")
    return made


def _made(client: Client, sql: str) -> bool:
    try:
        client.run(sql.replace("%", "%%"))
    except client.Error:
        return False  # what can't be made can't be called
    return True


def test_a_better_match_of_a_servers_function_does_not_make_its_maker_a_superuser(
    start_client: Callable[..., Client],
) -> None:
    with attacker() as (client, name):
        client.run(f"CREATE FUNCTION public.cardinality(bigint[]) RETURNS integer {body(EXPLOIT)}".replace("%", "%%"))
        use_every_routine(client)
        client.run("DROP FUNCTION public.cardinality(bigint[])")
        assert not is_superuser(name)
        assert Message.objects.count() > 0


@pytest.mark.parametrize("make", [shadows, namesakes])
def test_no_function_and_no_operator_that_matches_better_is_run_by_a_routine(
    make: Callable[[Client, str], int], start_client: Callable[..., Client]
) -> None:
    with attacker() as (client, name):
        client.run("SET client_min_messages = error")
        try:
            assert make(client, LOUD) > 300
            use_every_routine(client)
        finally:
            client.close()
            run(f"DROP OWNED BY {name}")
