"""A claim that the server commits after the claimer's death, or its session's (P9): supervisor or child find it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.models import Message, Worker
from tests.process.conftest import wait_until
from tests.process.pooler import relay

pytestmark = pytest.mark.django_db(transaction=True)

GATE = 1_612

if settings.TEST_DATABASE == "postgres":  # the one where a commit can be made to wait for something

    @pytest.fixture
    def commits_of_claims_wait(transactional_db: None) -> Iterator[None]:
        """A deferred trigger runs at COMMIT, and wants a lock that the test holds."""
        run(
            "CREATE FUNCTION wait_at_the_gate() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NULL; END $$"
        )
        run(
            "CREATE CONSTRAINT TRIGGER gate AFTER UPDATE ON django_dbqueue_message DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW WHEN (OLD.status = 'n' AND NEW.status = 'run' AND NEW.queue = 'test') "
            "EXECUTE FUNCTION wait_at_the_gate()"
        )
        yield
        run("SELECT pg_advisory_unlock_all()")
        run("DROP TRIGGER gate ON django_dbqueue_message")
        run("DROP FUNCTION wait_at_the_gate()")

    def run(sql: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone() if cursor.description else None

    def claimer_that_waits() -> Any:
        return run("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")

    def test_a_claim_that_is_committed_after_its_childs_death_is_released_at_once_and_uncharged(
        start_worker: Callable[..., Any], commits_of_claims_wait: None
    ) -> None:
        run(f"SELECT pg_advisory_lock({GATE})")
        message = Message.objects.enqueue({"do": "ok"}, queue="test", lease=600)
        worker = start_worker()
        claimer = wait_until(claimer_that_waits, "the claim's commit")
        [child] = Worker.objects.all()
        os.kill(child.pid, signal.SIGKILL)
        worker.wait_for_output("ended by signal 9")
        wait_until(lambda: not Worker.objects.filter(pk=child.pk).exists(), "the aftermath, which finds nothing yet")
        run(f"SELECT pg_advisory_unlock({GATE})")
        worker.wait_for("end", message.pk)
        wait_until(lambda: Message.objects.get(pk=message.pk).status == "y", "the ack")
        row = Message.objects.get(pk=message.pk)
        assert (row.read_count, row.crashes) == (1, 0)
        assert row.conn_id != claimer[0]

    @contextmanager
    def waiting_behind_a_relay(start_worker: Callable[..., Any]) -> Iterator[tuple[Message, Any, Callable[[], None]]]:
        """A message, a worker whose claim of it waits for its commit, and what cuts the worker off."""
        run(f"SELECT pg_advisory_lock({GATE})")
        message = Message.objects.enqueue({"do": "ok"}, queue="test", lease=600)
        lines: list[socket.socket] = []
        with relay(os.environ["DBQUEUE_TEST_URL"], clients=lines) as url:
            worker = start_worker(DBQUEUE_TEST_URL=url, PGSSLMODE="disable", PGGSSENCMODE="disable")
            wait_until(claimer_that_waits, "the claim's commit")

            def cut_off() -> None:
                for line in lines:
                    with suppress(OSError):  # it has gone by itself
                        line.shutdown(socket.SHUT_RDWR)
                worker.wait_for_output("database trouble")

            yield message, worker, cut_off

    def test_a_claim_whose_reply_a_stopping_child_did_not_get_is_released_uncharged(
        start_worker: Callable[..., Any], commits_of_claims_wait: None
    ) -> None:
        with waiting_behind_a_relay(start_worker) as (message, worker, cut_off):
            worker.signal(signal.SIGTERM)
            worker.wait_for_output("stopping")
            cut_off()
            run(f"SELECT pg_advisory_unlock({GATE})")
            assert worker.ended() == 0, worker.output
        row = Message.objects.get(pk=message.pk)
        assert (row.status, row.read_count, row.crashes) == ("n", 0, 0)
        assert worker.notes("begin") == []

    def test_a_claim_that_is_committed_after_its_session_was_replaced_is_released_by_the_child_itself(
        start_worker: Callable[..., Any], commits_of_claims_wait: None
    ) -> None:
        with waiting_behind_a_relay(start_worker) as (message, worker, cut_off):
            cut_off()
            witness = Message.objects.enqueue({"do": "ok"}, queue="second")
            worker.wait_for("end", witness.pk)
            run(f"SELECT pg_advisory_unlock({GATE})")
            worker.wait_for("end", message.pk)
            wait_until(lambda: Message.objects.get(pk=message.pk).status == "y", "the ack")
            worker.signal(signal.SIGTERM)
            assert worker.ended() == 0, worker.output
        row = Message.objects.get(pk=message.pk)
        assert (row.read_count, row.crashes) == (1, 0)
