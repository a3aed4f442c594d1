"""PostgreSQL's claim joins rows by their place, which an update changes: a row that moved waits for the next claim."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.models import Message
from tests.concurrency.steps import aside, waits_for_a_lock
from tests.factories import claim_one, row, waiting

pytestmark = pytest.mark.django_db(transaction=True)

GATE = 4711
# Volatile, so that it is run by the statement, behind its snapshot, and not by the planner before it
CLOCK = f"""
CREATE SCHEMA halting;
CREATE FUNCTION halting.statement_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({GATE});
    RETURN pg_catalog.statement_timestamp();
END $$
"""


@pytest.fixture
def halting_clock() -> Iterator[None]:
    """A clock that stops whoever reads it, and has it in his path, while somebody keeps the gate."""
    execute(CLOCK)
    yield
    execute("DROP SCHEMA halting CASCADE")


@contextmanager
def gate() -> Iterator[None]:
    execute(f"SELECT pg_advisory_lock({GATE})")
    try:
        yield
    finally:
        execute(f"SELECT pg_advisory_unlock({GATE})")


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def statement_of(session: int) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT query FROM pg_stat_activity WHERE pid = %s", [session])
        return str(cursor.fetchone()[0])


if settings.TEST_DATABASE == "postgres":  # the others take rows that they have locked before

    @pytest.mark.usefixtures("halting_clock")
    def test_a_row_that_changes_between_a_claims_snapshot_and_its_lock_is_left_to_the_next() -> None:
        moved, still = waiting(), waiting()
        with aside() as other:
            other.do(lambda: execute("SET search_path = halting, pg_catalog, public"))
            with gate():
                running = other.begin(lambda: Message.objects.claim(2, queue=moved.queue))
                assert waits_for_a_lock(other.session, running)
                assert "WITH picked" in statement_of(other.session)
                assert Message.objects.filter(pk=moved.pk).update(max_reads=9) == 1
            claimed = running.result()
        assert [message.pk for message in claimed] == [still.pk]
        stored = row(moved)
        assert (stored["status"], stored["conn_id"], stored["claim_token"], stored["read_count"]) == (
            "n",
            None,
            None,
            0,
        )
        assert claim_one().pk == moved.pk
