"""Roll-ups per queue and hour: each message once, wherever it is and wherever it moves meanwhile."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models import DurationField, ExpressionWrapper, F

from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.models import ArchivedMessage, Message, QueueStatistic
from django_dbqueue.spark.jobs import statistics
from django_dbqueue.spark.jobs.arguments import Progress, quiet
from django_dbqueue.spark.jobs.config import StatisticsConfig
from django_dbqueue.spark.jobs.statistics import StatisticsResult
from tests.spark.histories import archived, ended, exported, saved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)
TEN = NINE + timedelta(hours=1)


def compute(
    spark: SparkSession,
    credentials_file: str,
    *lakes: str,
    since: datetime | None = None,
    progress: Progress = quiet,
) -> StatisticsResult:
    config = StatisticsConfig(credentials_file=credentials_file, lake=lakes, since=since)
    return statistics.run(spark, config, progress=progress)


def cells() -> dict[tuple[str, int], QueueStatistic]:
    return {(cell.queue, cell.hour.hour): cell for cell in QueueStatistic.objects.all()}


def counts() -> dict[tuple[str, int], int]:
    return {place: cell.messages for place, cell in cells().items()}


def exact(rows: Any, later: str, earlier: str, share: float) -> float:
    """The smallest value that this share of the rows doesn't exceed, by the database's own order."""
    took = ExpressionWrapper(F(later) - F(earlier), output_field=DurationField())
    values = list(rows.annotate(took=took).order_by("took").values_list("took", flat=True))
    return float(values[math.ceil(share * len(values)) - 1].total_seconds())


def test_a_cell_has_what_exact_sql_finds(spark: SparkSession, credentials_file: str) -> None:
    draw = random.Random(4)
    saved(
        *(
            ended(
                TEN + timedelta(microseconds=draw.randrange(3_600_000_000)),
                wait=draw.expovariate(1),
                took=draw.uniform(0, 5),
            )
            for _ in range(1_440)
        )
    )

    compute(spark, credentials_file)

    [cell] = QueueStatistic.objects.all()
    assert (cell.queue, cell.hour, cell.messages) == ("emails", TEN, 1_440)
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        rows = Message.objects.all()
        assert getattr(cell, f"wait_{name}") == pytest.approx(exact(rows, "claimed_at", "due_at", share), abs=1e-6)
        assert getattr(cell, f"run_{name}") == pytest.approx(exact(rows, "finished_at", "claimed_at", share), abs=1e-6)


def test_failures_are_deliveries_without_an_ack_and_retries_those_beyond_the_first(
    spark: SparkSession, credentials_file: str
) -> None:
    saved(
        ended(TEN, reads=1),
        ended(TEN, reads=3),
        ended(TEN, reads=5, outcome="dead"),
        ended(TEN, reads=0, outcome="dead"),
        ended(TEN, reads=2, outcome="dropped"),
    )

    compute(spark, credentials_file)

    [cell] = QueueStatistic.objects.all()
    assert (cell.messages, cell.dead) == (5, 2)
    assert cell.failures == 0 + 2 + 5 + 0 + 2
    assert cell.retries == 0 + 2 + 4 + 0 + 1


def test_times_are_measured_only_where_the_last_claim_ended_the_message(
    spark: SparkSession, credentials_file: str
) -> None:
    nacked, never_claimed = (ended(TEN, queue=queue, outcome="dropped") for queue in ("nacked", "never"))
    nacked.due_at = TEN + timedelta(hours=5)
    never_claimed.claimed_at = None
    saved(nacked, never_claimed)

    compute(spark, credentials_file)

    for cell in QueueStatistic.objects.all():
        assert (cell.messages, cell.wait_p50, cell.run_p99) == (1, None, None)


def test_hours_are_those_of_utc_and_begin_at_their_first_microsecond(
    spark: SparkSession, credentials_file: str
) -> None:
    saved(ended(TEN - timedelta(microseconds=1)), ended(TEN), ended(TEN + timedelta(minutes=59)))

    compute(spark, credentials_file)

    assert counts() == {("emails", 9): 1, ("emails", 10): 2}


def test_live_archive_and_lake_are_counted_together_while_a_batch_is_written_and_not_purged(
    spark: SparkSession, credentials_file: str, tmp_path: Path
) -> None:
    archived(ended(NINE), ended(NINE))
    lake = exported(spark, credentials_file, tmp_path / "lake")
    archived(ended(NINE), ended(TEN))
    exported(spark, credentials_file, tmp_path / "lake", keep=True)
    archived(ended(TEN))
    saved(ended(NINE), ended(TEN))
    assert ArchivedMessage.objects.count() == 3  # two of them are in the lake too

    result = compute(spark, credentials_file, lake)

    assert counts() == {("emails", 9): 4, ("emails", 10): 3}
    assert (result.cells, result.messages) == (2, 7)


def test_a_second_run_recomputes_the_last_hours_and_adds_nothing_twice(
    spark: SparkSession, credentials_file: str
) -> None:
    saved(ended(NINE - timedelta(hours=5)), ended(NINE), ended(TEN))
    compute(spark, credentials_file)
    QueueStatistic.objects.filter(hour__lt=NINE).update(messages=99)  # a mark: an hour that isn't looked at again
    saved(ended(NINE), ended(TEN + timedelta(hours=1)), ended(NINE - timedelta(hours=5)))

    result = compute(spark, credentials_file)

    assert result.since == TEN - timedelta(hours=2)
    assert counts() == {("emails", 4): 99, ("emails", 9): 2, ("emails", 10): 1, ("emails", 11): 1}

    compute(spark, credentials_file, since=NINE - timedelta(hours=6))
    assert counts() == {("emails", 4): 2, ("emails", 9): 2, ("emails", 10): 1, ("emails", 11): 1}


def test_an_empty_database_has_no_cells(spark: SparkSession, credentials_file: str) -> None:
    assert str(compute(spark, credentials_file)).startswith("0 roll-ups of 0 messages, from the beginning")


@pytest.mark.once
@pytest.mark.parametrize("step", ["reading the live messages", "reading the archive", "reading the lake"])
def test_messages_that_move_on_while_they_are_read_are_counted_once(
    spark: SparkSession, credentials_file: str, tmp_path: Path, step: str
) -> None:
    archived(ended(NINE))
    lake = exported(spark, credentials_file, tmp_path / "lake")
    archived(ended(NINE), ended(TEN))
    saved(ended(NINE), ended(TEN))

    def move(what: str, _done: int, _total: int | None) -> None:
        if what == step:  # everything goes one place on, and what was archived goes two
            exported(spark, credentials_file, tmp_path / "lake")
            Message.objects.all().purge()

    compute(spark, credentials_file, lake, progress=move)

    assert counts() == {("emails", 9): 3, ("emails", 10): 2}
    assert not Message.objects.exists()


@pytest.mark.once
def test_a_dead_letter_that_is_requeued_and_done_in_between_is_counted_once(
    spark: SparkSession, credentials_file: str
) -> None:
    saved(ended(NINE, outcome="dead"))

    def handle(what: str, _done: int, _total: int | None) -> None:
        if what == "reading the archive":
            assert Message.objects.all().requeue() == 1
            [message] = Message.objects.claim(1, queue="emails")
            message.ack()
            Message.objects.all().purge()

    compute(spark, credentials_file, progress=handle)

    assert counts() == {("emails", 9): 1}  # the archive's row has ended after this run began, and belongs to the next
    compute(spark, credentials_file, since=NINE)
    [cell] = QueueStatistic.objects.all()
    assert (cell.messages, cell.dead) == (1, 0)


@pytest.mark.once
def test_a_message_that_is_archived_long_after_its_hour_stays_in_its_cell(
    spark: SparkSession, credentials_file: str, tmp_path: Path
) -> None:
    saved(ended(NINE - timedelta(days=30), outcome="dead"), ended(TEN))
    compute(spark, credentials_file)
    before = counts()

    Message.objects.all().purge()
    lake = exported(spark, credentials_file, tmp_path / "lake")
    compute(spark, credentials_file, lake)
    assert counts() == before

    compute(spark, credentials_file, lake, since=NINE - timedelta(days=31))
    assert counts() == before


@pytest.mark.once
def test_a_cell_whose_messages_are_gone_goes_too(spark: SparkSession, credentials_file: str) -> None:
    saved(ended(NINE, outcome="dead"), ended(TEN))
    compute(spark, credentials_file)
    Message.objects.dead("emails").requeue()

    compute(spark, credentials_file)

    assert counts() == {("emails", 10): 1}


@pytest.mark.once
def test_hours_that_left_for_a_lake_that_is_not_named_are_not_counted_without_it(
    spark: SparkSession, credentials_file: str, tmp_path: Path
) -> None:
    archived(ended(NINE))
    lake = exported(spark, credentials_file, tmp_path / "lake")
    with pytest.raises(InvalidPipeline, match=r"lake:lake:\w+.*--lake"):
        compute(spark, credentials_file)

    assert not QueueStatistic.objects.exists()
    compute(spark, credentials_file, lake)
    assert counts() == {("emails", 9): 1}


@pytest.mark.once
def test_two_lakes_that_hold_the_same_are_counted_once(
    spark: SparkSession, credentials_file: str, tmp_path: Path
) -> None:
    archived(ended(NINE))
    lakes = [exported(spark, credentials_file, tmp_path / name, keep=True) for name in ("one", "two")]

    compute(spark, credentials_file, *lakes)

    assert counts() == {("emails", 9): 1}
