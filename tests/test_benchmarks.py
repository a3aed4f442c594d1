"""What the benchmarks say of who is faster can be relied on."""

from __future__ import annotations

import pytest

from benchmarks.race import Contest, Contestant, Rates, Target, Verdict, race


def test_contestants_take_turns_each_round_begins_with_another_one_and_the_warm_up_does_not_count() -> None:
    turns: list[str] = []
    names = ("a", "b", "c")
    contestants = [Contestant(name, 10, run=lambda name=name: turns.append(name)) for name in names]
    outcome = race(Contest("trial", contestants, []), rounds=2, tell=print)
    assert "".join(turns) == "abc" + "bca" + "cab"
    assert [len(outcome.rates[name].rounds) for name in names] == [2, 2, 2]


def test_a_contestant_that_has_not_done_its_work_ends_the_contest() -> None:
    def find_a_row_missing() -> None:
        raise AssertionError("9 rows, not 10")

    lazy = Contestant("lazy", 10, run=lambda: None, check=find_a_row_missing)
    with pytest.raises(AssertionError, match="9 rows, not 10"):
        race(Contest("trial", [lazy], []), rounds=1, tell=print)


def test_one_round_that_was_disturbed_does_not_change_the_verdict() -> None:
    assert Rates("a", 10, [100.0, 101.0, 3.0]).median == 100.0


@pytest.mark.parametrize(("ratio", "met"), [(0.74, False), (0.75, True)])
def test_a_target_is_met_from_its_ratio_on(ratio: float, met: bool) -> None:
    assert Verdict(Target("a", "b", 0.75), ratio, 1_000).met is met


def test_a_target_that_names_a_rate_too_is_met_by_either() -> None:
    target = Target("a", "b", 0.5, or_per_second=15_000)
    assert Verdict(target, 0.4, 15_000).met
    assert Verdict(target, 0.5, 100).met
    assert not Verdict(target, 0.49, 14_999).met
