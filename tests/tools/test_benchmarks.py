"""What the benchmarks say of who is faster can be relied on."""

from __future__ import annotations

import pytest

from benchmarks.race import Contest, Contestant, Figures, Target, Verdict, race


def test_contestants_take_turns_each_round_begins_with_another_one_and_the_warm_up_does_not_count() -> None:
    turns: list[str] = []
    names = ("a", "b", "c")
    contestants = [Contestant(name, 10, run=lambda name=name: turns.append(name)) for name in names]
    outcome = race(Contest("trial", contestants, []), rounds=2, announce=print)
    assert "".join(turns) == "abc" + "bca" + "cab"
    assert [len(outcome.figures[name].rounds) for name in names] == [2, 2, 2]


def test_a_contestant_that_has_not_done_its_work_ends_the_contest() -> None:
    def find_a_row_missing() -> None:
        raise AssertionError("9 rows, not 10")

    lazy = Contestant("lazy", 10, run=lambda: None, check=find_a_row_missing)
    with pytest.raises(AssertionError, match="9 rows, not 10"):
        race(Contest("trial", [lazy], []), rounds=1, announce=print)


def test_one_round_that_was_disturbed_does_not_change_the_verdict() -> None:
    assert Figures("a", 10, [100.0, 101.0, 3.0]).median == 100.0


def test_a_contestant_may_measure_by_itself_and_its_figure_is_what_it_reports() -> None:
    figures = iter([9.0, 4.0, 6.0])
    own = Contestant("own", measure=lambda: next(figures), run=lambda: pytest.fail("it was run"))
    outcome = race(Contest("trial", [own], unit="ms"), rounds=2, announce=print)
    assert outcome.figures["own"].rounds == [4.0, 6.0]


def test_a_contest_that_takes_long_has_fewer_rounds_and_no_warm_up() -> None:
    turns: list[str] = []
    slow = Contestant("slow", 1, run=lambda: turns.append("slow"))
    race(Contest("trial", [slow], rounds=2, warm_up=False), rounds=5, announce=print)
    assert len(turns) == 2


@pytest.mark.parametrize(("figure", "met"), [(74.0, False), (75.0, True)])
def test_a_target_is_met_from_its_ratio_on(figure: float, met: bool) -> None:
    assert Verdict(Target("a", "b", 0.75), figure, 100.0).met is met


@pytest.mark.parametrize(("figure", "met"), [(150.0, True), (151.0, False)])
def test_a_cost_may_be_so_many_times_its_rival_s_at_most(figure: float, met: bool) -> None:
    assert Verdict(Target("a", "b", at_most=1.5), figure, 100.0).met is met


@pytest.mark.parametrize(("figure", "met"), [(15.0, True), (15.1, False)])
def test_a_target_without_a_rival_is_a_plain_number(figure: float, met: bool) -> None:
    assert Verdict(Target("a", at_most=15), figure).met is met


def test_a_target_that_names_a_rate_too_is_met_by_either() -> None:
    target = Target("a", "b", 0.5, or_at_least=15_000)
    assert Verdict(target, 15_000, 37_500).met
    assert Verdict(target, 100, 200).met
    assert not Verdict(target, 14_999, 30_000).met


def test_of_several_rivals_the_best_one_counts() -> None:
    contestants = [
        Contestant(name, measure=lambda figure=figure: figure)
        for name, figure in (("own", 90.0), ("b", 10.0), ("c", 9))
    ]
    outcome = race(Contest("trial", contestants, [Target("own", ("c", "b"), 9)]), rounds=1, announce=print)
    assert outcome.verdicts == [Verdict(Target("own", ("c", "b"), 9), 90.0, 10.0, "b")]
    assert outcome.verdicts[0].met
