from __future__ import annotations

import random

import pytest

from django_dbqueue.insight.histogram import Histogram, bucket_of, seconds_of


@pytest.mark.parametrize("micros", [*range(200), 10**6, 10**9, 86_400 * 10**6, 2**62, 2**62 + 1])
def test_the_middle_of_a_bucket_is_no_more_than_a_64th_off_what_fell_into_it(micros: int) -> None:
    assert abs(seconds_of(bucket_of(micros)) * 1e6 - micros) <= micros / 64


def test_buckets_follow_each_other_without_gaps_and_grow_with_the_time() -> None:
    buckets = [bucket_of(micros) for micros in range(100_000)]
    assert set(buckets) == set(range(buckets[-1] + 1))
    assert buckets == sorted(buckets)


def test_a_time_that_a_clock_made_negative_counts_as_none() -> None:
    assert bucket_of(-5) == bucket_of(0) == 0


def test_sums_of_histograms_are_the_histogram_of_all() -> None:
    times = [random.Random(7).randrange(10**8) for _ in range(3_000)]
    parts, whole = [Histogram() for _ in range(7)], Histogram()
    for number, micros in enumerate(times):
        parts[number % 7].add(micros)
        whole.add(micros)
    total = Histogram()
    for part in parts:
        total.update(Histogram.of_text(part.to_text()))
    assert total == whole
    assert total.total() == 3_000


def test_percentiles_are_the_times_at_their_ranks() -> None:
    times = sorted(random.Random(3).randrange(1, 10**7) for _ in range(1_000))
    histogram = Histogram()
    for micros in times:
        histogram.add(micros)
    for point, found in zip((0.5, 0.95, 0.99, 1), histogram.percentiles((0.5, 0.95, 0.99, 1)), strict=True):
        assert found is not None
        exact = times[round(point * 1_000) - 1]
        assert found * 1e6 == pytest.approx(exact, rel=1 / 64)


def test_where_nothing_was_measured_there_is_no_percentile() -> None:
    assert Histogram().percentiles((0.5, 0.95)) == [None, None]
    assert Histogram.of_text(Histogram().to_text()) == Histogram()
