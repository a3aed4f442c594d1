"""How soon a worker looks again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from django_dbqueue.worker.pace import COST_SHARE, ENOUGH, FASTEST, LATELY, SHARE, Pace
from tests.worker.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize(
    ("idle_for", "wanted"),
    [(0.0, FASTEST), (0.1, FASTEST), (1.0, 1.0 / SHARE), (LATELY, LATELY / SHARE), (11.0, ENOUGH)],
)
def test_it_is_a_share_of_the_time_without_work(clock: Clock, idle_for: float, wanted: float) -> None:
    pace = Pace()
    pace.worked()
    clock.now += idle_for
    assert 0.75 * wanted <= pace.next() <= wanted
    pace.worked()
    assert pace.next() <= FASTEST


@pytest.mark.parametrize(
    ("costs", "dear"), [([], 0.0), ([0.05], 0.05), ([0.05] * 7 + [0.001], 0.001), ([0.3] * 9, 0.3)]
)
@pytest.mark.usefixtures("clock")
def test_dear_checks_take_a_tenth_of_the_time_and_a_slow_one_among_cheap_ones_is_not_dear(
    costs: Sequence[float], dear: float
) -> None:
    pace = Pace()
    for cost in costs:
        pace.found_nothing(cost)
    wanted = max(FASTEST, dear * COST_SHARE)
    assert 0.75 * wanted <= pace.next() <= wanted
