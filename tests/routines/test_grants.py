"""Accounts that may use the routines and can't touch the tables; the page docs/routines.md says how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test import override_settings

from django_dbqueue.models import Message, Queue
from django_dbqueue.routines import installation
from django_dbqueue.sessions.django_session import DjangoSession
from tests.conftest import ROOT
from tests.factories import QUEUE
from tests.routines.accounts import IS_MYSQL, account, database, run
from tests.routines.client import Client

Start = "Callable[..., Client]"
TABLE = Message._meta.db_table
REFUSED = {1142, 1143, 1370, "42501"}
PUT = (
    f"EXECUTE ON FUNCTION {'put_message_in_queue' if IS_MYSQL else 'put_message_in_queue(text, text, bigint, bigint)'}"
)


def granted(who: str) -> list[str]:
    """The rights that the documentation gives such an account on this server, without the account's name."""
    page = (ROOT / "docs" / "routines.md").read_text()
    section = page.partition("\n### MySQL and MariaDB\n" if IS_MYSQL else "\n### PostgreSQL\n")[2].partition("\n##")[0]
    block = next(block for block in section.split("```sql\n")[1:] if f"TO {who}" in block).partition("```")[0]
    grants = [
        line.removeprefix("GRANT ") for line in block.replace("\n    ", " ").splitlines() if line.startswith("GRANT")
    ]
    return [grant.partition(" TO ")[0].replace("shop.", f"{database()}." if IS_MYSQL else "") for grant in grants]


def refused(client: Client, sql: str, *params: object) -> bool:
    with pytest.raises(client.Error) as error:
        client.run(sql, *params)
    assert client.code(error.value) in REFUSED, error.value
    return True


def test_an_account_with_the_grants_of_the_page_uses_every_routine(start_client: Callable[..., Client]) -> None:
    with account(*granted("billing")) as who:
        client = start_client(who)
        first = client.put(QUEUE, "first", 2, 60)
        second = client.put(QUEUE, '{"second": 2}', 2, 60)
        assert [row["id"] for row in client.get(QUEUE)] == [first]
        client.delete(first)
        [held] = client.claim(QUEUE, 1, 60)
        assert held["id"] == second
        assert client.extend(second, held["token"], 120)
        assert client.nack(second, held["token"], 0)
        [held] = client.claim(QUEUE, 1, 60)
        assert client.ack(second, held["token"])
        assert [row["id"] for row in client.run("SELECT id FROM main_queue ORDER BY id")] == [first, second]
        assert Message.objects.get(pk=second).conn_id is not None
        grouped = [client.put_in_group(QUEUE, "a", text) for text in ("first", "second")]
        assert client.kick(QUEUE, "a") == 1
        for message_id in grouped:
            [held] = client.claim(QUEUE, 2, 60)
            assert held["id"] == message_id
            assert client.ack(message_id, held["token"])
        client.close()


def test_the_same_account_cannot_touch_the_tables(start_client: Callable[..., Client]) -> None:
    with account(*granted("billing")) as who:
        client = start_client(who)
        message_id = client.put(QUEUE, "hello")
        before = list(Message.objects.values())
        assert refused(client, f"SELECT * FROM {TABLE}")
        assert refused(client, f"UPDATE {TABLE} SET status = 'y' WHERE id = %s", message_id)
        assert refused(client, f"DELETE FROM {TABLE}")
        assert refused(client, f"INSERT INTO {TABLE} (queue, body) VALUES ('q', 'x')")
        assert refused(client, "SELECT * FROM django_dbqueue_queue")
        assert refused(client, "UPDATE main_queue SET payload = 'y'")
        assert list(Message.objects.values()) == before
        client.close()


def test_an_account_that_may_only_put_can_do_nothing_else(start_client: Callable[..., Client]) -> None:
    with account(*granted("signup")) as who:
        client = start_client(who)
        message_id = client.put(QUEUE, "hello")
        for verb, arguments in (
            ("get_message_from_queue", (QUEUE,)),
            ("delete_message_from_queue", (message_id,)),
            ("claim_messages", (QUEUE, 1, 60)),
        ):
            with pytest.raises(client.Error) as error:
                client.call(verb, *arguments)
            assert client.code(error.value) in REFUSED
        assert refused(client, "SELECT ack_message(%s, 1)", message_id)
        assert refused(client, "SELECT put_message_in_group(%s, 'x', 1, 60, 'a')", QUEUE)
        assert refused(client, "SELECT kick_group(%s, 'a')", QUEUE)
        assert refused(client, "SELECT * FROM main_queue")
        assert Message.objects.ready(QUEUE).count() == 1
        client.close()


@pytest.mark.parametrize("queue", ["dbqueue.operations", "orders"])
def test_the_queue_of_the_bulk_operations_is_for_no_routine(start_client: Callable[..., Client], queue: str) -> None:
    with override_settings(DBQUEUE={"OPERATIONS_QUEUE": queue}):
        call_command("queue_routines", "install", verbosity=0)
    try:
        client = start_client()
        order = Message.objects.enqueue({"operation": 1}, queue=queue)
        for verb, arguments in (
            ("put_message_in_queue", (queue, '{"operation": 1}', 0, 60)),
            ("put_message_in_group", (queue, '{"operation": 1}', 0, 60, "a")),
            ("get_message_from_queue", (queue,)),
            ("claim_messages", (queue, 1, 60)),
        ):
            with pytest.raises(client.Error, match="is not for routines") as error:
                client.value(verb, *arguments) if verb.startswith("put") else client.call(verb, *arguments)
            assert client.code(error.value) == (1644 if IS_MYSQL else "42501")
        assert list(Message.objects.values_list("pk", "status")) == [(order.pk, "n")]
    finally:
        call_command("queue_routines", "install", verbosity=0)


def test_without_a_grant_no_account_may_use_a_routine(start_client: Callable[..., Client]) -> None:
    rights = (f"SELECT ON {database()}.django_migrations",) if IS_MYSQL else ()
    with account(*rights) as who:
        client = start_client(who)
        assert refused(client, "SELECT put_message_in_queue('q', 'x', 0, 0)")
        client.close()


def test_an_upgrade_keeps_the_grants(start_client: Callable[..., Client]) -> None:
    with account(*granted("signup")) as who:
        with override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 10}):
            call_command("queue_routines", "install", verbosity=0)
        client = start_client(who)
        with pytest.raises(client.Error, match="10 bytes"):
            client.put(QUEUE, "longer than that")
        call_command("queue_routines", "install", verbosity=0)
        assert client.put(QUEUE, "longer than that")
        client.close()


if IS_MYSQL:

    def test_a_helper_that_another_account_made_under_our_comment_is_not_called_by_ours(
        start_client: Callable[..., Client],
    ) -> None:
        [helper] = [
            one for one in installation.wanted_routines(DjangoSession("default")) if one.name == "dbqueue_check_queue"
        ]
        installation.uninstall(DjangoSession("default"))
        try:
            with account(f"CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON {database()}.*") as who:
                start_client(who).run(
                    "CREATE PROCEDURE dbqueue_check_queue(IN _queue_name VARCHAR(255) CHARACTER SET ascii) "
                    f"SQL SECURITY INVOKER COMMENT '{helper.comment}' "
                    "BEGIN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'runs by the rights of another'; END"
                )
                made = installation.install(DjangoSession("default")).made
                assert {one.name for one in made} == {
                    one.name for one in installation.wanted_routines(DjangoSession("default"))
                }
                assert start_client().put(QUEUE, "hello")
        finally:
            installation.install(DjangoSession("default"))

    def test_a_callers_temporary_tables_hide_ours_from_it_and_give_it_nothing(
        start_client: Callable[..., Client],
    ) -> None:
        with account(*granted("billing"), f"CREATE TEMPORARY TABLES ON {database()}.*") as who:
            client = start_client(who)
            first = client.put(QUEUE, "ours")
            Queue.objects.pause(QUEUE)
            columns = "name VARCHAR(64), is_paused BOOLEAN, paused_until DATETIME(6)"
            client.run(f"CREATE TEMPORARY TABLE django_dbqueue_queue ({columns})")
            [held] = client.claim(QUEUE, 1, 60)  # what it can have: not to be told that the queue is paused
            assert held["id"] == first
            with pytest.raises(client.Error):
                client.run(f"CREATE TEMPORARY TABLE mine AS SELECT * FROM {TABLE}")
            client.close()

    def test_an_account_that_may_grant_may_grant_after_an_upgrade(start_client: Callable[..., Client]) -> None:
        with account() as who:
            run(*(f"GRANT {PUT.replace('FUNCTION ', f'FUNCTION {database()}.')} TO {who[0]}@'{host}' WITH GRANT OPTION"
                  for host in ("localhost", "127.0.0.1")))  # fmt: skip
            with override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 10}):
                call_command("queue_routines", "install", verbosity=0)
            call_command("queue_routines", "install", verbosity=0)
            with account() as other:
                client = start_client(who)
                client.run(f"GRANT {PUT.replace('FUNCTION ', f'FUNCTION {database()}.')} TO {other[0]}@localhost")
                client.close()


if settings.TEST_DATABASE == "mysql":  # MariaDB replaces in one step

    @pytest.mark.django_db(transaction=True)
    def test_one_that_fails_after_a_drop_names_whose_grants_are_lost() -> None:
        def failing(execute: Any, statement: str, *rest: Any) -> Any:
            if statement.lstrip().startswith("CREATE FUNCTION put_message_in_queue"):
                raise OperationalError(1021, "Disk full")
            return execute(statement, *rest)

        with account(f"{PUT.replace('FUNCTION ', f'FUNCTION {database()}.')}") as who:
            with (
                override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 10}),
                connection.execute_wrapper(failing),
                pytest.raises(CommandError) as refused,
            ):
                call_command("queue_routines", "install", verbosity=0)
            call_command("queue_routines", "install", verbosity=0)
        assert "put_message_in_queue was replaced: (1021" in str(refused.value)
        assert f"grant EXECUTE on it again to: '{who[0]}'@'" in str(refused.value)
        assert "half installed" not in str(refused.value)


if not IS_MYSQL:

    def test_a_callers_search_path_and_temporary_tables_lead_no_routine_astray(
        start_client: Callable[..., Client],
    ) -> None:
        with account(*granted("billing"), f"TEMPORARY ON DATABASE {database()}") as who:
            client = start_client(who)
            client.run(f"CREATE TEMPORARY TABLE {TABLE} (id bigint, queue text, body text, status text)")
            client.run("SET search_path = pg_temp, public")
            message_id = int(client.value("public.put_message_in_queue", QUEUE, "hello", 0, 60))
            assert client.run(f"SELECT * FROM {TABLE}") == []
            assert Message.objects.get(pk=message_id).body == "hello"
            client.close()
