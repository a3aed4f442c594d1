"""Installing where other roles may make things, on PostgreSQL: nothing of theirs is run, nor taken for ours."""

from __future__ import annotations

import io

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection

from django_dbqueue.checks.database import check_alias, check_schema
from django_dbqueue.routines import installation
from django_dbqueue.routines.existing_routines import installed
from django_dbqueue.routines.rendering import NAMES
from django_dbqueue.sessions.django_session import DjangoSession
from tests.routines.accounts import account, run
from tests.routines.client import Client
from tests.routines.test_takeover import LOUD, attacker_of, body

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("nothing_there")]


def test_a_namesake_with_our_comment_that_another_role_owns_is_not_mistaken_for_ours() -> None:
    [helper] = [
        one for one in installation.wanted_routines(DjangoSession("default")) if one.name == "dbqueue_check_queue"
    ]
    with account("CREATE ON SCHEMA public") as who:
        client = Client(connection.settings_dict, who)
        client.run(f"CREATE FUNCTION public.dbqueue_check_queue(text) RETURNS text {body(LOUD)}".replace("%", "%%"))
        client.run(f"COMMENT ON FUNCTION public.dbqueue_check_queue(text) IS '{helper.comment}'")
        client.close()
        with pytest.raises(CommandError, match=f"dbqueue_check_queue.*{who[0]}"):
            installation.install(DjangoSession("default"))
        assert {one.owner for one in installed("default")} == {who[0]}
        run(f"DROP OWNED BY {who[0]}")
        assert (
            len(installation.install(DjangoSession("default")).made) == len(NAMES) - 4
        )  # which this server does without


def test_the_view_is_made_by_the_servers_own_operators() -> None:
    with attacker_of("CREATE ON SCHEMA public") as (client, _name):
        client.run(f"CREATE FUNCTION public.answer(varchar, varchar) RETURNS bool {body(LOUD)}".replace("%", "%%"))
        client.run("CREATE OPERATOR public.= (FUNCTION = public.answer, LEFTARG = varchar, RIGHTARG = varchar)")
        with connection.cursor() as cursor:
            cursor.execute("SET search_path = public, pg_catalog")
        try:
            installation.install(DjangoSession("default"))
            with connection.cursor() as cursor:
                cursor.execute("SHOW search_path")
                assert cursor.fetchone() == ("public, pg_catalog",)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("RESET search_path")
            client.run("DROP OWNED BY CURRENT_USER RESTRICT")


def test_a_schema_of_any_name_has_routines_that_work() -> None:
    odd = 'Odd "name" {now} {schema} %s it\'s'
    quoted = '"' + odd.replace('"', '""') + '"'
    tables = [model._meta.db_table for model in apps.get_app_config("django_dbqueue").get_models()]
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {quoted}", None)
        try:
            for table in tables:
                cursor.execute(f"CREATE TABLE {quoted}.{table} (LIKE public.{table} INCLUDING ALL)", None)
            cursor.execute("SELECT set_config('search_path', %s, false)", [quoted])
            installation.install(DjangoSession("default"))
            cursor.execute("RESET search_path")
            cursor.execute(f"SELECT {quoted}.put_message_in_queue('q', 'x', 3, 60)", None)
            [(number,)] = cursor.fetchall()
            cursor.execute(f"SELECT id, token FROM {quoted}.claim_messages('q', 1, 60)", None)
            [(claimed, token)] = cursor.fetchall()
            assert claimed == number
            cursor.execute(f"SELECT {quoted}.ack_message(%s, %s)".replace("%s it", "%%s it"), [claimed, token])
            assert cursor.fetchone() == (True,)
            cursor.execute("SELECT count(*) FROM public.django_dbqueue_message")
            assert cursor.fetchone() == (0,)
        finally:
            cursor.execute("RESET search_path")
            cursor.execute(f"DROP SCHEMA {quoted} CASCADE", None)


def test_a_check_names_who_may_make_things_where_the_tables_are() -> None:
    assert check_schema(connection) == []
    with account("CREATE ON SCHEMA public") as (name, _password):
        run("GRANT CREATE ON SCHEMA public TO PUBLIC")
        errors = io.StringIO()
        try:
            [found] = check_alias("default")
            call_command("queue_routines", "install", stdout=io.StringIO(), stderr=errors)
        finally:
            run("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        assert found.id == "dbqueue.W018"
        assert f"PUBLIC, {name}" in found.hint or f"{name}, PUBLIC" in found.hint
        assert "REVOKE CREATE ON SCHEMA public" in errors.getvalue()


def test_a_check_reports_routines_of_a_version_that_could_be_hijacked_until_they_are_installed_again() -> None:
    installation.install(DjangoSession("default"))
    assert check_alias("default") == []
    run("ALTER FUNCTION public.ack_message(bigint, bigint) SET search_path = public, pg_temp")
    run("COMMENT ON FUNCTION public.ack_message(bigint, bigint) IS 'django_dbqueue 0123456789abcdef'")
    [found] = check_alias("default")
    assert found.id == "dbqueue.W019"
    assert "ack_message(bigint,bigint)" in found.msg
    call_command("queue_routines", "install", verbosity=0, stdout=io.StringIO())
    assert check_alias("default") == []
