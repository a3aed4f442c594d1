"""The gate: what a change adds to it."""

from __future__ import annotations

import ast
import re
import subprocess
from itertools import chain
from pathlib import Path

import pytest

from tests import gate, gate_changed
from tests.conftest import ROOT
from tests.servers import change, gate_runs

pytestmark = pytest.mark.once


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone whose change begins at its first commit."""

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet")
    for name in ("tests/test_old.py", "tests/test_gone.py", "tests/conftest.py", "django_dbqueue/worker/loop.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("\n")
    git("add", ".")
    git("commit", "--quiet", "--message=landed")
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "landed").write_text(git("rev-parse", "HEAD"))
    (tmp_path / "tests" / "test_gone.py").unlink()
    (tmp_path / "tests" / "test_old.py").write_text("edited = True\n")
    (tmp_path / "tests" / "conftest.py").write_text("edited = True\n")
    git("add", "--all", "tests")
    git("commit", "--quiet", "--message=the change")
    (tmp_path / "tests" / "test_new.py").touch()
    monkeypatch.setattr(change, "ROOT", tmp_path)
    monkeypatch.setattr(change, "LANDED", tmp_path / ".ci" / "landed")
    monkeypatch.delenv("DBQUEUE_GATE_BASE", raising=False)
    return tmp_path


def test_a_change_is_what_differs_from_what_has_landed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [".ci/landed", "tests/conftest.py", "tests/test_gone.py", "tests/test_new.py", "tests/test_old.py"]
    assert change.changed_files() == files, "what it deletes, too"
    assert change.test_files(files) == ["tests/test_new.py", "tests/test_old.py"]
    assert change.most_changed(change.test_files(files), 1) == ["tests/test_new.py"]
    monkeypatch.setenv("DBQUEUE_GATE_BASE", "HEAD")
    assert change.changed_files() == [".ci/landed", "tests/test_new.py"]


def test_where_the_history_lacks_what_has_landed_no_change_is_known(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DBQUEUE_GATE_BASE", "0" * 40)
    assert change.changed_files() == []
    assert gate_runs.run("touched", ["sqlite"], ()) == 0
    assert "NOT TESTED: what the change touches" in capsys.readouterr().out


def test_what_a_change_touches_adds_its_part() -> None:
    parts = [*gate.PARTS["touched"], *gate.PARTS["touched-spark"]]
    added = {part.title for part in parts if part.runs_for(["django_dbqueue/spark/lake.py"])}
    assert added == {"all of it", "all on Spark", "what sees a planted bug on Spark"}
    assert not any(part.runs_for(["django_dbqueue/worker/loop.py"]) for part in parts)
    assert all(part.runs_for([]) for part in gate.PARTS["sqlite"])


ELSEWHERE = {"routines", "checks", "doctor"}
"""Rooms whose SQL no plan is looked at of: servers' own language, and questions about the server itself."""


def touched_by(file: str) -> set[str]:
    return {part.title for part in chain(gate.PARTS["touched"], gate.PARTS["touched-spark"]) if part.runs_for([file])}


def has_sql(module: Path) -> bool:
    """Whether it has text of a statement, its docstrings apart."""
    nodes = [*ast.walk(ast.parse(module.read_text()))]
    docs = {node.value for node in nodes if isinstance(node, ast.Expr)}
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and node not in docs]
    return any(isinstance(text, str) and re.search(r"\b(FROM|UPDATE|INTO|WHERE|ORDER BY) ", text) for text in texts)


def test_a_change_of_any_room_s_sql_brings_the_plans() -> None:
    modules = [module for module in (ROOT / "django_dbqueue").rglob("*.py") if has_sql(module)]
    names = [str(module.relative_to(ROOT)) for module in modules]
    assert len({name.split("/")[1] for name in names}) > 10, "rooms"
    others = {name for name in names if "plans of a million rows" not in touched_by(name)}
    assert {name for name in others if name.split("/")[1] not in ELSEWHERE} == set()
    assert "plans of a million rows" in touched_by("django_dbqueue/models/message.py"), "its indexes"


@pytest.mark.parametrize(
    ("file", "title"),
    [
        ("tests/plans/crowd.py", "plans of a million rows"),
        ("tests/scale/rows.py", "plans of a million rows"),
        ("tests/admin/conftest.py", "all pages, and a browser"),
        ("tests/spark/cluster.py", "all on Spark"),
        ("django_dbqueue/locale/de/LC_MESSAGES/django.po", "all of it"),
        ("docs/how-to/recipes.md", "a page that is followed"),
    ],
)
def test_a_change_of_what_tests_stand_on_brings_these(file: str, title: str) -> None:
    assert (ROOT / file).exists()
    assert title in touched_by(file)


def test_each_test_that_follows_a_page_runs_for_that_page_alone() -> None:
    """Without a page it would run for every change."""
    pages = change.followed(*gate.FOLLOWING)
    assert len(pages) > 10
    assert [test for test in pages if not pages[test]] == []
    assert "README.md" in pages["tests/pages/test_recipes_page.py"]


def test_the_gate_runs_each_of_its_parts() -> None:
    parts = re.findall(r"^(?!#).*?(?:\bpart|--gate) ([a-z-]+)", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert sorted(parts) == sorted([*gate.PARTS, "changed"])


def test_what_a_change_edits_and_the_gate_has_no_time_for_is_named(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gate_changed, "MOST_FILES", 1)
    planned = gate_runs._planned("changed", change.changed_files())
    assert [(part.tests, len(passes)) for part, passes in planned] == [(["tests/test_new.py"], 3)]
    assert "NOT TESTED 3 times each: 1 more of them: tests/test_old.py\n" in capsys.readouterr().out


def test_what_is_slow_in_a_file_that_a_change_edits_runs_once(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, mark in (("old", "slow"), ("new", "nightly")):
        (repository / "tests" / f"test_{name}.py").write_text(f"@pytest.mark.{mark}\ndef test_it(): pass\n")
    monkeypatch.setattr(gate_changed, "MOST_SLOW_FILES", 1)
    *_, (part, passes) = gate_runs._planned("changed", change.changed_files())
    assert (part.tests, len(passes)) == (["tests/test_new.py"], 1)
    assert "(slow or nightly) and not spark and not downloads" in passes[0].arguments[1]
    assert "NOT TESTED what is slow, once each: 1 more of them: tests/test_old.py\n" in capsys.readouterr().out


def test_each_path_and_test_that_the_gate_names_is_there() -> None:
    parts = [*chain(*gate.PARTS.values()), *gate_changed.PARTS, gate_changed.ONCE]
    patterns = [test for part in parts for test in part.tests if not (ROOT / test.partition("::")[0]).exists()]
    assert not patterns, "pytest would run none of that part"
    named = {name for part in parts for name in (*part.tests, *part.left_out, *part.touched)}
    for name in named:
        path, _, test = name.partition("::")
        found = list(ROOT.glob(path.replace("/*_sql", "/**/*_sql")))
        assert found, name
        assert not test or f"def {test.partition('[')[0]}(" in found[0].read_text(), name
