"""A batch of the history that would be small waits for more rows, where the query's options say so."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from django_dbqueue.spark.connection import Connection
from tests.process.conftest import wait_until
from tests.spark.archives import archive
from tests.spark.test_following import follow, read  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(transaction=True)
WEEK = 7 * 86_400


def test_too_few_rows_wait_for_more_and_each_is_counted_once(
    follow: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = archive(2)
    stream = follow(minMessagesPerTrigger=4, maxTriggerDelay=WEEK)
    start, limit = stream.initialOffset(), stream.getDefaultReadLimit()
    assert stream.latestOffset(start, limit) == start
    assert stream.reportLatestOffset()["id"] == there[-1], "what waits is left to be read"
    there += archive(1)
    sent: list[tuple[Any, ...]] = []
    real = Connection.fetch
    monkeypatch.setattr(Connection, "fetch", lambda own, one: (sent.append(one.params), real(own, one))[1])
    assert stream.latestOffset(start, limit) == start
    assert sent[-1][0] == there[1]
    there += archive(3)
    assert read(stream, start, stream.latestOffset(start, limit)) == there


def test_a_small_batch_goes_when_it_has_waited_for_long(
    follow: Any,  # noqa: F811
) -> None:
    there = archive(1)
    stream = follow(minMessagesPerTrigger=4, maxTriggerDelay=1)
    start, limit = stream.initialOffset(), stream.getDefaultReadLimit()
    wait_until(lambda: stream.latestOffset(start, limit) == {"id": there[-1]}, "the batch of one")


@pytest.mark.parametrize("now", [True, False])
def test_what_takes_all_that_is_there_waits_for_nothing(
    follow: Any,  # noqa: F811
    now: bool,
) -> None:
    there = archive(3)
    stream = follow(minMessagesPerTrigger=2, maxMessagesPerTrigger=2, maxTriggerDelay=WEEK)
    start = stream.initialOffset()
    if now:
        stream.prepareForTriggerAvailableNow()
        assert stream.latestOffset({"id": there[1]}, ReadMaxRows(2)) == {"id": there[2]}
    else:
        assert stream.latestOffset(start, ReadAllAvailable()) == {"id": there[2]}
