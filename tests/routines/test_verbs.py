"""The verbs of article 002 over this queue: put, get, delete, in their callers' transactions and beside others."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings

from django_dbqueue.databases import Statement
from django_dbqueue.models import Message, Queue
from django_dbqueue.routines import installer_sql
from tests import factories
from tests.factories import QUEUE
from tests.routines.client import Client

COLUMNS = [
    "id", "queue_name", "payload", "read_cnt", "max_read_cnt", "last_read", "next_read", "invisibility_time",
    "created_at", "deleted_at",
]  # fmt: skip


def test_get_has_the_columns_of_the_article_with_our_values(client: Client) -> None:
    message_id = client.put(QUEUE, "hello", 3, 60)
    [row] = client.get(QUEUE)
    message = Message.objects.get(pk=message_id)
    assert list(row) == COLUMNS
    assert {name: row[name] for name in COLUMNS if not name.endswith(("_at", "_read"))} == {
        "id": message_id, "queue_name": QUEUE, "payload": "hello", "read_cnt": 1, "max_read_cnt": 3,
        "invisibility_time": 60,
    }  # fmt: skip
    moments = ("last_read", "next_read", "created_at")
    assert [row[name].replace(tzinfo=None) for name in moments] == [
        moment.replace(tzinfo=None) for moment in (message.claimed_at, message.available_at, message.created_at)
    ]
    assert row["deleted_at"] is None


def test_the_view_shows_the_same_columns_of_every_message(client: Client) -> None:
    waiting, read, deleted = (client.put(QUEUE, text, 1, 60) for text in ("waiting", "read", "deleted"))
    Message.objects.filter(pk=waiting).update(priority=-1)
    [seen] = client.get(QUEUE)
    client.delete(deleted)
    view = {row["id"]: row for row in client.run("SELECT * FROM main_queue")}
    assert list(view[read]) == COLUMNS
    assert view[read] == seen
    assert (view[waiting]["read_cnt"], view[waiting]["last_read"], view[waiting]["deleted_at"]) == (0, None, None)
    assert view[deleted]["deleted_at"] is not None


def test_what_was_received_is_invisible_for_its_time_and_then_comes_again(client: Client) -> None:
    message_id = client.put(QUEUE, "hello", 0, 600)
    assert [row["id"] for row in client.get(QUEUE)] == [message_id]
    assert client.get(QUEUE) == []
    factories.let_pass(Message.objects.get(pk=message_id), 601)
    [row] = client.get(QUEUE)
    assert (row["id"], row["read_cnt"]) == (message_id, 2)


def test_a_limit_of_nothing_is_no_limit(client: Client) -> None:
    client.put(QUEUE, "hello", 0, 0)
    assert [client.get(QUEUE)[0]["read_cnt"] for _ in range(7)] == [1, 2, 3, 4, 5, 6, 7]


def test_what_was_read_as_often_as_it_may_is_dead_and_not_lost(client: Client) -> None:
    message_id = client.put(QUEUE, "hello", 2, 0)
    assert [client.get(QUEUE)[0]["read_cnt"] for _ in range(2)] == [1, 2]
    assert client.get(QUEUE) == []
    [dead] = Message.objects.dead(QUEUE)
    assert dead.pk == message_id
    assert Message.objects.dead(QUEUE).requeue() == 1
    assert client.get(QUEUE)[0]["id"] == message_id


@pytest.mark.parametrize("make", [factories.waiting, factories.held, factories.stuck, factories.dead])
def test_delete_finishes_a_message_in_every_state_but_done(client: Client, make: Callable[..., Message]) -> None:
    message = make(key="k")
    client.delete(message.pk)
    row = factories.row(message)
    assert (row["status"], row["live"], row["error"], row["available_at"]) == ("y", None, None, row["finished_at"])
    assert Message.objects.enqueue("again", queue=QUEUE, key="k").outcome == "created"


def test_delete_of_what_is_done_or_unknown_changes_nothing_and_raises_nothing(client: Client) -> None:
    message = factories.done()
    before = factories.rows()
    client.delete(message.pk)
    client.delete(message.pk + 1)
    assert factories.rows() == before


def test_whoever_holds_what_was_deleted_is_refused(client: Client) -> None:
    client.put(QUEUE, "hello")
    [held] = client.claim(QUEUE)
    client.delete(held["id"])
    assert client.ack(held["id"], held["token"]) is False


def test_a_paused_queue_takes_messages_in_and_gives_none_out(client: Client) -> None:
    Queue.objects.pause(QUEUE)
    client.put(QUEUE, "hello")
    assert client.get(QUEUE) == []
    Queue.objects.resume(QUEUE)
    assert len(client.get(QUEUE)) == 1


def test_put_joins_the_callers_transaction(client: Client, start_client: Callable[[], Client]) -> None:
    client.run("START TRANSACTION")
    message_id = client.put(QUEUE, "hello")
    assert start_client().get(QUEUE) == []
    client.run("ROLLBACK")
    assert not Message.objects.filter(pk=message_id).exists()
    client.run("START TRANSACTION")
    client.put(QUEUE, "hello")
    client.run("COMMIT")
    assert len(start_client().get(QUEUE)) == 1


def test_a_settlement_joins_the_callers_transaction(client: Client) -> None:
    client.put(QUEUE, "hello")
    [held] = client.claim(QUEUE)
    client.run("START TRANSACTION")
    assert client.ack(held["id"], held["token"])
    client.run("ROLLBACK")
    assert client.ack(held["id"], held["token"])


def test_a_get_in_the_callers_transaction_is_undone_with_it_and_commits_nothing(
    client: Client, start_client: Callable[[], Client]
) -> None:
    first, second = client.put(QUEUE, "first"), client.put(QUEUE, "second")
    client.run("START TRANSACTION")
    third = client.put(QUEUE, "third")
    assert client.get(QUEUE)[0]["id"] == first
    assert start_client().get(QUEUE)[0]["id"] == second
    client.run("ROLLBACK")
    assert not Message.objects.filter(pk=third).exists()
    assert client.get(QUEUE)[0]["id"] == first
    assert client.get(QUEUE) == []


def test_what_others_have_locked_is_passed_by_however_much_it_is(
    client: Client, start_client: Callable[[], Client]
) -> None:
    ids = [client.put(QUEUE, "x", 5, 60) for _ in range(60)]
    client.run("START TRANSACTION")
    assert [row["id"] for row in client.claim(QUEUE, 55)] == ids[:55]
    other = start_client()
    assert [row["id"] for row in other.get(QUEUE)] == [ids[55]]
    assert [row["id"] for row in other.claim(QUEUE, 10)] == ids[56:]
    assert other.get(QUEUE) == []
    client.run("ROLLBACK")
    assert [row["id"] for row in other.claim(QUEUE, 3)] == ids[:3]


def test_a_get_of_nothing_in_an_open_transaction_holds_nothing_up(
    client: Client, start_client: Callable[[], Client]
) -> None:
    Message.objects.enqueue("later", queue="empty", delay=3600)
    Message.objects.enqueue("running", queue="empty")
    client.claim("empty")
    client.run("START TRANSACTION")
    assert client.get("empty") == []
    other = start_client()
    if other.is_mysql:
        other.run("SET SESSION innodb_lock_wait_timeout = 1")
    else:
        other.run("SET lock_timeout = '1s'")
    sent = [other.put(queue, "x") for queue in ("empty", "emptx", "emptz")]
    assert [other.get(queue)[0]["id"] for queue in ("empty", "emptx", "emptz")] == sent
    client.run("COMMIT")


def test_what_is_put_in_one_time_zone_is_due_at_once_in_another(
    client: Client, start_client: Callable[[], Client]
) -> None:
    name = "time_zone" if client.is_mysql else "TimeZone"
    other = start_client()
    client.run(f"SET {name} = '+11:00'")
    other.run(f"SET {name} = '-11:00'")
    message_id = client.put(QUEUE, "x", 0, 600)
    assert [row["id"] for row in other.get(QUEUE)] == [message_id]
    assert client.get(QUEUE) == []
    message = Message.objects.get(pk=message_id)
    assert (message.available_at - message.claimed_at).total_seconds() == 600


def test_a_late_message_that_its_holder_is_settling_is_passed_by(
    client: Client, start_client: Callable[[], Client]
) -> None:
    client.put(QUEUE, "x", 5, 0)
    [held] = client.claim(QUEUE)
    client.run("START TRANSACTION")
    assert client.ack(held["id"], held["token"])
    assert start_client().get(QUEUE) == []
    client.run("COMMIT")
    assert Message.objects.get(pk=held["id"]).status == "y"


def test_the_isolation_of_the_callers_session_stays_as_it_was(client: Client) -> None:
    if client.is_mysql:
        name = (
            "@@session.transaction_isolation"
            if "maria" not in client.session.get_server_info().lower()
            else "@@tx_isolation"
        )
        ask = f"SELECT {name} AS isolation"
    else:
        ask = "SELECT current_setting('transaction_isolation') AS isolation"
    before = client.run(ask)
    client.get(QUEUE)
    client.claim(QUEUE)
    assert client.run(ask) == before


if settings.TEST_DATABASE != "postgres":

    def test_the_callers_variables_stay_as_they_were(client: Client) -> None:
        client.run("SET @id = 'mine', @payload = 'mine', @queue_name = 'mine', @_now = 'mine', @_id = 'mine'")
        client.put(QUEUE, "x", 5, 60)
        client.get(QUEUE)
        client.put(QUEUE, "x", 5, 60)
        [held] = client.claim(QUEUE)
        assert client.ack(held["id"], held["token"])
        [variables] = client.run("SELECT @id, @payload, @queue_name, @_now, @_id")
        assert {*variables.values()} == {"mine"}


@pytest.mark.parametrize("source", ["as the server has it", "without RANDOM_BYTES"])
def test_the_tokens_are_63_bits_of_which_each_is_as_often_set_as_not(
    client: Client, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source == "without RANDOM_BYTES":  # as a MariaDB before 10.10
        monkeypatch.setattr(installer_sql, "random_bytes", lambda: Statement("SELECT NO_SUCH_FUNCTION(1)", ()))
        made = io.StringIO()
        call_command("queue_routines", "install", stdout=made)
        assert ("created function dbqueue_new_token" in made.getvalue()) == (settings.TEST_DATABASE == "mariadb")
        monkeypatch.undo()
    for _ in range(400):
        client.put(QUEUE, "x")
    tokens = {client.claim(QUEUE)[0]["token"] for _ in range(400)}
    assert len(tokens) == 400
    assert all(0 < token < 2**63 for token in tokens)
    for bit in range(63):
        # 400 tosses of a coin come outside of these bounds once in some millions of millions of runs
        assert 130 < sum(token >> bit & 1 for token in tokens) < 270, f"bit {bit}"
    call_command("queue_routines", "install", verbosity=0)


if settings.TEST_DATABASE == "postgres":

    def heard(listener: Client) -> list[tuple[str, str]]:
        """What has come to a session that listens; one of its own statements shows that no more is under way."""
        listener.run("SELECT 1")
        return [(notify.channel, notify.payload) for notify in listener.session.notifies(timeout=0)]

    def test_put_notifies_listening_workers_when_it_commits(client: Client, start_client: Callable[[], Client]) -> None:
        listener = start_client()
        listener.run("LISTEN django_dbqueue")
        client.run("BEGIN")
        client.put(QUEUE, "hello")
        assert heard(listener) == []
        client.run("COMMIT")
        assert heard(listener) == [("django_dbqueue", QUEUE)]

    def test_put_notifies_none_where_the_setting_forbids_it(client: Client, start_client: Callable[[], Client]) -> None:
        listener = start_client()
        listener.run("LISTEN django_dbqueue")
        with override_settings(DBQUEUE={"NOTIFY": False}):
            call_command("queue_routines", "install", verbosity=0)
        client.put(QUEUE, "hello")
        call_command("queue_routines", "install", verbosity=0)
        assert heard(listener) == []
