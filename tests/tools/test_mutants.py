"""The runner of planted bugs, on a small project: what is caught, what isn't, and what is neither."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import __main__ as program
from tests.mutants.checkout import Outcome
from tests.mutants.planted import Mutant, NotPlanted, read, read_all
from tests.mutants.trying import Trial, judge

pytestmark = pytest.mark.once
SHOP = "def price(number):\n    return number * 3\n\n\ndef greet():\n    return 'good day'\n"
TESTS = (
    "from shop import greet, price\n\n"
    "def test_price():\n    assert price(2) == 6\n\n"
    "def test_greeting():\n    assert greet()\n\n"
    "def test_that_fails_anyway():\n    assert price(1) == 4\n"
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "tests").mkdir(parents=True)
    (root / "shop.py").write_text(SHOP)
    (root / "tests" / "test_shop.py").write_text(TESTS)
    return root


@pytest.fixture
def tried(shop: Path, tmp_path: Path) -> Callable[..., list[tuple[str, str]]]:
    """Try bugs in the shop; return the verdicts with their reasons, in the order of the bugs."""

    def run(*mutants: Mutant, seconds: float = 60.0) -> list[tuple[str, str]]:
        (tmp_path / "copy").mkdir()
        trial = Trial(shop, tmp_path / "copy", lambda _: nullcontext("none://"), seconds=seconds)
        results = trial.run(mutants, ["sqlite"])
        by_name = {result.mutant.name: (result.verdict, result.why) for result in results}
        assert (shop / "shop.py").read_text() == SHOP, "the working tree is only read"
        return [by_name[mutant.name] for mutant in mutants]

    return run


def bug(text: str, instead: str, *, test: str = "test_price", **more: Any) -> Mutant:
    fields = {
        "name": f"{text} to {instead}",
        "promise": "P1",
        "file": "shop.py",
        "tests": (f"tests/test_shop.py::{test}",),
    }
    return Mutant(**{**fields, "text": text, "instead": instead, **more})


def test_a_bug_is_caught_by_a_failing_assertion_and_the_next_one_begins_from_the_clean_text(
    tried: Callable[..., list[tuple[str, str]]],
) -> None:
    (caught, by), (survives, why), (again, _) = tried(
        bug("* 3", "* 4"), bug("'good day'", "'good evening'", test="test_greeting"), bug("* 3", "* 5")
    )
    assert (caught, by) == ("caught", "tests/test_shop.py::test_price")
    assert survives == "NOT CAUGHT"
    assert "tests/test_shop.py::test_greeting" in why
    assert again == "caught"


def test_what_can_not_run_has_not_seen_the_bug(tried: Callable[..., list[tuple[str, str]]]) -> None:
    verdicts = tried(
        bug("return number", "return (number"),
        bug("def price", "import no_such_module\n\n\ndef price"),
        bug("number * 3", "numbre * 3"),
        bug("* 3", "* 3 + 0", test="test_that_fails_anyway"),
        bug("* 3", "* 30", test="test_that_is_not_there"),
    )
    assert [verdict for verdict, _ in verdicts] == ["broken"] * 5
    reasons = [why for _, why in verdicts]
    for why, words in zip(
        reasons,
        [
            "is no Python with it",
            "no_such_module",
            "NameError",
            "fails without the bug",
            "there is no tests/test_shop.py::test_that_is_not_there",
        ],
        strict=True,
    ):
        assert words in why


@pytest.mark.parametrize(("text", "times"), [("* 7", 0), ("return", 2)])
def test_a_text_that_is_not_there_once_is_an_error_that_names_the_bug(
    tried: Callable[..., list[tuple[str, str]]], text: str, times: int
) -> None:
    mutant = bug(text, "anything", name="the-bug-that-moved")
    [(verdict, why)] = tried(mutant)
    assert verdict == "broken"
    assert re.search(rf"^the-bug-that-moved: its text occurs {times} times in shop.py", why)


def test_a_bug_of_a_file_that_is_gone_is_reported(tried: Callable[..., list[tuple[str, str]]]) -> None:
    [(verdict, why)] = tried(bug("* 3", "* 4", file="store.py", name="gone"))
    assert (verdict, why.partition(";")[0]) == ("broken", "gone: there is no store.py")


def test_tests_that_come_to_no_end_are_a_catch_only_where_that_is_marked(
    tried: Callable[..., list[tuple[str, str]]],
) -> None:
    endless = ("return number * 3", "while number:\n        pass\n    return number * 3")
    marked, unmarked = tried(bug(*endless, name="said", hangs=True), bug(*endless, name="unsaid"), seconds=8.0)
    assert marked == ("caught", "hung")
    assert unmarked[0] == "broken"
    assert "came to no end" in unmarked[1]


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Outcome(frozenset(), {"t": "AssertionError: no"}, {}, 1, ""), "caught"),
        (Outcome(frozenset(), {"t": "Failed: waited 60 s in vain"}, {}, 1, ""), "caught"),
        (Outcome(frozenset({"t"}), {}, {}, 0, ""), "NOT CAUGHT"),
        (Outcome(frozenset(), {}, {"t": "ImportError: no"}, 1, ""), "broken"),
        (Outcome(frozenset(), {}, {}, 4, ""), "broken"),
    ],
    ids=["an assertion", "a wait in vain", "nothing", "an error of a fixture", "no test"],
)
def test_what_counts_as_seen(outcome: Outcome, verdict: str) -> None:
    assert judge(bug("a", "b"), outcome)[0] == verdict


@pytest.mark.parametrize(
    ("instead", "test", "code", "last"),
    [("* 4", "test_price", 0, "1 passed, 0 failed"), ("* 3 + 0", "test_price", 1, "0 passed, 1 failed")],
    ids=["caught", "not caught"],
)
def test_the_exit_code_and_the_last_line_show_whether_all_were_caught(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    instead: str, test: str, code: int, last: str,
) -> None:  # fmt: skip
    here = shop / "tests" / "mutants"
    here.mkdir()
    (here / "some.toml").write_text(
        f'[[mutant]]\nname = "dearer"\npromise = "P1"\nfile = "shop.py"\ntext = "* 3"\ninstead = "{instead}"\n'
        f'tests = ["tests/test_shop.py::{test}"]\n'
    )
    monkeypatch.setattr(program, "_HERE", here)
    monkeypatch.setattr("sys.argv", ["mutants", "--only", "sqlite"])
    assert program.main() == code
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_a_bug_that_is_not_described_whole_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    for text, error in (('name = "half"\n', "half: it has no"), ('name = "odd"\nfiel = ""\n', "odd: it has no")):
        file.write_text(f"[[mutant]]\n{text}")
        with pytest.raises(NotPlanted, match=error):
            read(file)


def test_each_planted_bug_can_be_planted_today_and_names_tests_that_are_there(
    pytestconfig: pytest.Config,
) -> None:
    """So that who changes a text, or the name of a test, hears of it at once, and not from the night."""
    root = pytestconfig.rootpath
    mutants = read_all(root / "tests" / "mutants")
    assert len(mutants) >= 40
    for mutant in mutants:
        mutant.source(root)
        mutant.check_tests(root)


def test_each_promise_of_the_page_has_a_planted_bug(pytestconfig: pytest.Config) -> None:
    root = pytestconfig.rootpath
    page = (root / "docs" / "promises.md").read_text()
    promised = re.findall(r"^## (P\d+)\. ", page, re.MULTILINE)
    assert re.findall(r"^\| \[(P\d+)\]\(#p\d+\) \|", page, re.MULTILINE) == promised, "its table has a row for each"
    assert sorted(promised, key=lambda name: int(name[1:])) == promised
    bugs = {mutant.promise for mutant in read_all(root / "tests" / "mutants")}
    assert set(promised) - bugs == set(), "a new promise comes with the bug that would break it"
    assert {bug for bug in bugs if re.fullmatch(r"P\d+", bug)} <= set(promised), "it breaks a promise of the page"
