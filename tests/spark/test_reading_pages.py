"""How a task goes through its ids, tried without Spark: pages, ranges, memory, and what stays open on the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.exceptions import DatabaseAway
from django_dbqueue.models import Message
from django_dbqueue.spark import arrow, table_reader
from django_dbqueue.spark.arrow import Pages
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.schemas import MESSAGES, arrow_schema
from django_dbqueue.spark.table_reader import IdRanges
from django_dbqueue.statements.scan_sql import Span
from tests.concurrency.steps import polls
from tests.plans.plan import CLAIM, PRIMARY, plan_of
from tests.spark.table_readers import SEVERAL_PARTITIONS, every, ids_of, messages, reader

pytestmark = pytest.mark.django_db(transaction=True)


# -- pages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_rows", [1, 6, 7, 8, 14, 1000])
def test_pages_meet_without_a_gap_and_without_a_row_twice(credentials_file: str, page_rows: int) -> None:
    messages(range(10, 24))
    assert every(ids_of(reader(credentials_file, pageRows=page_rows, fetchRows=3))) == [*range(10, 24)]


def test_a_row_that_comes_and_one_that_goes_disturb_no_other(credentials_file: str) -> None:
    messages(range(1, 31))
    one = reader(credentials_file, pageRows=10)
    [partition] = one.partitions()
    batches = one.read(partition)
    seen = next(batches).column(0).to_pylist()
    assert seen == [*range(1, 11)]
    Message.objects.filter(id__in=[5, 12]).delete()
    messages([31])
    rest = [number for batch in batches for number in batch.column(0).to_pylist()]
    assert rest == [number for number in range(11, 31) if number != 12]


def test_batches_of_long_payloads_are_bounded_by_bytes(credentials_file: str) -> None:
    body = "ü" * 32_000  # 64 kB
    Message.objects.bulk_create([Message(queue="long", body=body) for _ in range(400)], batch_size=50)
    one = reader(credentials_file, numPartitions=1, fetchRows=100_000)
    [partition] = one.partitions()
    sizes, rows = [], 0
    for batch in one.read(partition):
        sizes.append(batch.nbytes)
        rows += batch.num_rows
    assert rows == 400
    assert max(sizes) < arrow.BATCH_BYTES + arrow.STEP * 64_000


def test_pages_of_long_payloads_get_shorter(credentials_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_reader, "PAGE_BYTES", 100_000)
    monkeypatch.setattr(table_reader, "FIRST_PAGE_ROWS", 10)
    Message.objects.bulk_create([Message(queue="long", body="x" * 10_000) for _ in range(60)])
    one = reader(credentials_file, numPartitions=1)
    limits = []
    real = Pages.read

    def noted(pages: Pages, statement: Any) -> Any:
        limits.append(statement.params[-1])
        return real(pages, statement)

    monkeypatch.setattr(Pages, "read", noted)
    assert len(every(ids_of(one))) == 60
    assert limits[0] == 10
    assert 5 <= max(limits[1:]) <= 10


def test_a_page_beyond_what_may_be_held_is_cut_and_the_next_one_has_the_rest(
    credentials_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "HELD_BYTES", 1)
    messages(range(1, 101))
    cut = []
    real = Pages.close

    def noted(pages: Pages) -> None:
        cut.append(pages.is_cut)
        real(pages)

    monkeypatch.setattr(Pages, "close", noted)
    assert every(ids_of(reader(credentials_file, fetchRows=7))) == [*range(1, 101)]
    assert sum(cut) > 100 // 7


def test_nothing_stays_open_on_the_server_while_batches_are_worked_on(
    credentials_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages(range(1, 41))
    opened = []
    real = Pages.__init__

    def noted(pages: Pages, *args: Any, **options: Any) -> None:
        real(pages, *args, **options)
        opened.append(pages)

    monkeypatch.setattr(Pages, "__init__", noted)
    one = reader(credentials_file, pageRows=10, fetchRows=5, maxConnections=0)
    [partition] = one.partitions()
    sessions = set()
    for _ in one.read(partition):
        assert not open_on_the_server(opened[0].connection)
        sessions.add(opened[0].connection)
    assert len(sessions) == 1, "all pages of a task come over one session, unless sessions are counted"


def open_on_the_server(session: Connection) -> bool:
    """Whether this session has a transaction, a read view or a running statement, as another session sees it."""
    if session.vendor == "sqlite":  # a read that is under way keeps the log from being emptied
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return bool(cursor.fetchone()[0])
    if session.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT state, backend_xmin FROM pg_stat_activity WHERE pid = %s", [session.raw.info.backend_pid]
            )
            return cursor.fetchone() != ("idle", None)
    moments = polls()
    next(moments)  # what was copied by then may be older than the last read
    return all(_open_in_innodb(session) for _ in moments)


def _open_in_innodb(session: Connection) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = %s",
            [session.raw.thread_id()],
        )
        transactions = cursor.fetchone()[0]
        cursor.execute("SELECT command FROM information_schema.processlist WHERE id = %s", [session.raw.thread_id()])
        return bool(transactions) or cursor.fetchone() != ("Sleep",)


if settings.TEST_DATABASE in {"mariadb", "mysql"}:

    def test_mysqlclient_still_gives_rows_by_its_private_call(credentials_file: str) -> None:
        """The kernel takes many rows by one C call: ``cursor._result.fetch_row(rows, 0)``, as tuples of bytes."""
        from MySQLdb.cursors import SSCursor

        messages([1, 2, 3])
        with Connection(Credentials.load({"credentials_file": credentials_file})) as session:
            session.raw.converter = {}
            cursor = session.raw.cursor(SSCursor)
            cursor.execute("SELECT id, body, `key` FROM django_dbqueue_message WHERE body <> %s ORDER BY id", ("ü",))
            assert cursor._result.fetch_row(2, 0) == ((b"1", b"1", None), (b"2", b"2", None))
            assert cursor._result.fetch_row(2, 0) == ((b"3", b"3", None),)
            assert cursor._result.fetch_row(2, 0) == ()
            cursor.close()


if SEVERAL_PARTITIONS:

    @pytest.mark.parametrize("outage", [0, 60])
    def test_a_session_that_is_killed_between_two_pages_is_no_end_of_the_rows(
        credentials_file: str, outage: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is replaced, or an error where nobody wants to wait."""
        messages(range(1, 21))
        opened = []
        real = Pages.__init__

        def noted(pages: Pages, *args: Any, **options: Any) -> None:
            real(pages, *args, **options)
            opened.append(pages.connection)

        monkeypatch.setattr(Pages, "__init__", noted)
        one = reader(credentials_file, pageRows=10, outage=outage, maxConnections=0)
        [partition] = one.partitions()
        batches = one.read(partition)
        first = next(batches).column(0).to_pylist()
        [session] = opened
        with connection.cursor() as cursor:
            if session.vendor == "postgresql":
                cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [session.raw.info.backend_pid])
            else:
                cursor.execute(f"KILL {session.raw.thread_id()}")
        if outage:
            rest = [number for batch in batches for number in batch.column(0).to_pylist()]
            assert first + rest == [*range(1, 21)]
        else:
            with pytest.raises(DatabaseAway, match=r"(?i)lost connection|gone away|killed|terminat"):
                list(batches)


# -- which index ------------------------------------------------------------------------------------------------------


def page_statement(credentials_file: str, *, few: bool, **options: Any) -> Any:
    one = reader(credentials_file, **options)
    credentials = Credentials.load({"credentials_file": credentials_file})
    with Pages(credentials, arrow_schema(MESSAGES.schema), fetch_rows=10, outage=0) as pages:
        return one._page(pages, list(MESSAGES.columns), Span(1, 10_000), 100, few=few)


def test_pages_are_found_by_the_primary_key(credentials_file: str) -> None:
    messages(range(1, 2_001))
    analyze()
    plan = plan_of(connection, page_statement(credentials_file, few=False))
    assert plan.indexes == (PRIMARY,), plan.text
    assert not plan.sorts, plan.text


def test_the_few_messages_of_a_queue_are_found_by_the_claim_index(credentials_file: str) -> None:
    messages(range(1, 2_001))
    messages(range(3_000, 3_003), queue="rare")
    analyze()
    one = reader(credentials_file, queue="rare", status="n", pageRows=1_000)
    if SEVERAL_PARTITIONS:
        [partition] = one.partitions()
        assert isinstance(partition, IdRanges)
        assert partition.few
        plan = plan_of(connection, page_statement(credentials_file, few=True, queue="rare", status="n"))
        assert plan.indexes == (CLAIM,), plan.text
    assert every(ids_of(one)) == [3_000, 3_001, 3_002]


def test_a_queue_of_many_messages_is_dealt_out_to_several_tasks(credentials_file: str) -> None:
    messages(range(1, 2_001))
    messages(range(5_000, 5_100), queue="other")
    parts = ids_of(reader(credentials_file, queue="pages", pageRows=100, numPartitions=4))
    assert len(parts) == (4 if SEVERAL_PARTITIONS else 1)
    assert every(parts) == [*range(1, 2_001)]


def analyze() -> None:
    with connection.cursor() as cursor:
        verb = "ANALYZE TABLE" if connection.vendor == "mysql" else "ANALYZE"
        cursor.execute(f"{verb} django_dbqueue_message")
        if cursor.description:
            cursor.fetchall()


def test_a_reader_that_travels_to_tasks_carries_no_secret(credentials_file: str) -> None:
    import pickle

    stated = Credentials.load({"credentials_file": credentials_file})
    marked = Credentials(vendor=stated.vendor, name=stated.name, password="s3cret-m4rker")
    file = Path(credentials_file).with_name("marked.json")
    file.write_text(marked.to_json())
    assert b"s3cret-m4rker" not in pickle.dumps(reader(str(file)))
