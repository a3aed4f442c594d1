"""Sessions whose server takes no writes any more are left, in each thread, by whoever learns of it first.

A driver's own cursor makes a session read-only here, which no wrapper sees: to the worker it is a demoted server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any
from unittest.mock import Mock

import pytest
from django.conf import settings
from django.db import Error, connections, transaction

from django_dbqueue.models import Queue
from django_dbqueue.worker.demotion import REFUSED_AT, is_demoted, note_refusals
from django_dbqueue.worker.sync_threads import CleanThreads
from django_dbqueue.worker.thread_connections import discard_all, leave_clean, leave_demoted
from django_dbqueue.worker.traces import watch

pytestmark = pytest.mark.django_db(transaction=True)

READ_ONLY = {
    "postgres": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
}

if settings.TEST_DATABASE in READ_ONLY:

    @pytest.fixture(autouse=True)
    def _forgotten() -> Iterator[None]:
        yield
        REFUSED_AT.clear()

    def open_session() -> Any:
        """Open the calling thread's session, watched as a worker's are."""
        connection = connections["default"]
        watch(connection)
        note_refusals(connection)
        connection.close()
        connection.ensure_connection()
        return connection.connection

    def demote() -> None:
        with closing(connections["default"].connection.cursor()) as cursor:
            cursor.execute(READ_ONLY[settings.TEST_DATABASE])

    def write() -> None:
        Queue.objects.create(name="written")

    def write_unnoticed() -> None:
        with suppress(Error):
            write()

    def write_in_a_transaction() -> None:
        with suppress(Error), transaction.atomic():
            write()

    @pytest.fixture
    def threads() -> Iterator[Callable[..., Any]]:
        """Two threads, each with its session, by their numbers."""
        pools = [ThreadPoolExecutor(1), ThreadPoolExecutor(1)]

        def run(number: int, work: Callable[[], Any]) -> Any:
            return pools[number].submit(work).result()

        yield run
        for number, pool in enumerate(pools):
            run(number, discard_all)
            pool.shutdown()

    @pytest.mark.parametrize("work", [write_unnoticed, write_in_a_transaction])
    def test_who_was_refused_leaves_whatever_the_handler_makes_of_the_error(
        threads: Callable[..., Any], work: Callable[[], None]
    ) -> None:
        for step in (open_session, demote, work, leave_clean, write):
            threads(0, step)
        assert Queue.objects.filter(name="written").exists()

    def test_others_leave_before_their_next_message_and_who_connected_later_stays(
        threads: Callable[..., Any],
    ) -> None:
        old = threads(1, open_session)
        threads(1, demote)
        for step in (open_session, demote, write_unnoticed, leave_clean):
            threads(0, step)
        new = threads(0, open_session)
        for step in (leave_demoted, write):
            threads(1, step)
        threads(0, leave_demoted)
        threads(0, leave_clean)
        assert threads(1, lambda: connections["default"].connection) is not old
        assert threads(0, lambda: connections["default"].connection) is new

    def test_a_thread_of_coroutines_leaves_before_its_next_call(threads: Callable[..., Any]) -> None:
        pool = CleanThreads(1, Mock())
        try:
            for each in (open_session, demote):
                pool.submit(each).result()
            for step in (open_session, demote, write_unnoticed):
                threads(0, step)
            pool.submit(write).result()
        finally:
            pool.shutdown()
        assert Queue.objects.filter(name="written").exists()

    def make_read_only() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute(READ_ONLY[settings.TEST_DATABASE])
        write_unnoticed()

    def begin_read_only() -> None:
        with suppress(Error), connections["default"].cursor() as cursor:
            cursor.execute("START TRANSACTION READ ONLY")
            write()

    def have_the_driver_begin_read_only() -> None:
        connections["default"].connection.read_only = True
        write_in_a_transaction()

    @pytest.mark.parametrize(
        "work",
        [make_read_only, begin_read_only]
        + ([have_the_driver_begin_read_only] if settings.TEST_DATABASE == "postgres" else []),
    )
    def test_what_its_handler_made_read_only_demotes_no_server(
        threads: Callable[..., Any], work: Callable[[], None]
    ) -> None:
        for step in (open_session, leave_clean):
            threads(1, step)
        for step in (open_session, work):
            threads(0, step)
        assert not threads(1, lambda: is_demoted(connections["default"]))
