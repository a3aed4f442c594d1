"""The plan of a run's faults."""

from __future__ import annotations

from itertools import pairwise

import pytest

from django_dbqueue.testing.torture.faults import BUILT_IN, FAULTS, TIMED, plan

pytestmark = pytest.mark.once


def test_a_seed_repeats_the_plan_and_another_one_makes_another() -> None:
    assert plan(7, seconds=60, kinds=FAULTS) == plan(7, seconds=60, kinds=reversed(FAULTS))
    assert plan(7, seconds=60, kinds=FAULTS) != plan(8, seconds=60, kinds=FAULTS)


def test_each_kind_happens_once_before_any_comes_again() -> None:
    faults = plan(3, seconds=120, kinds=FAULTS)
    assert len(faults) > 10 * len(TIMED)
    for first in range(0, len(faults) - len(TIMED), len(TIMED)):
        assert {fault.kind for fault in faults[first : first + len(TIMED)]} == set(TIMED)


def test_faults_are_in_order_and_within_the_time() -> None:
    faults = plan(3, seconds=30, kinds=FAULTS)
    assert all(one.at < other.at for one, other in pairwise(faults))
    assert 0 < faults[0].at < faults[-1].at < 30


def test_only_the_chosen_faults_are_planned_and_those_of_the_senders_need_no_time() -> None:
    assert {fault.kind for fault in plan(1, seconds=30, kinds=["kill", "fail"])} == {"kill"}
    assert plan(1, seconds=30, kinds=BUILT_IN) == []
