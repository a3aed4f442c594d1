"""The tracer counts what a message goes through."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import patience

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]


def trace(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.trace", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience(120), check=False)


def counted() -> dict[str, tuple[int, ...]]:
    """The table: calls, files and changes of file of each verb."""
    ended = trace()
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = [line.rsplit(maxsplit=3) for line in ended.stdout.splitlines()[1:]]
    return {verb.strip(): tuple(map(int, rest)) for verb, *rest in rows}


def test_the_table_counts_calls_files_and_changes_of_each_verb() -> None:
    counts = counted()
    assert list(counts) == ["enqueue", "claim", "second claim", "release", "nack", "ack", "archive"]
    for calls, files, changes in counts.values():
        assert 3 < files <= changes < calls
    assert counts["claim"] > counts["second claim"] > counts["ack"]


def test_no_verb_takes_more_than_the_decision_allows() -> None:
    """Fewer is fine: then the page may say so."""
    page = next((ROOT / "docs" / "decisions").glob("0022-*.md")).read_text()
    rows = re.findall(r"^\| ([\w ]+) \| [^|]+ \| [^|]+ \| (\d+) / (\d+) / (\d+) \|", page, re.MULTILINE)
    ceilings = {verb: tuple(map(int, numbers)) for verb, *numbers in rows}
    counts = counted()
    assert list(ceilings) == list(counts)
    over = {
        verb: (needed, ceilings[verb])
        for verb, needed in counts.items()
        if any(each > most for each, most in zip(needed, ceilings[verb], strict=True))
    }
    assert not over, "calls / files / changes of file, and what docs/decisions/0022 allows; say there why it takes more"


def test_the_steps_of_a_verb_name_file_and_function() -> None:
    steps = [tuple(line.split()) for line in trace("claim").stdout.splitlines()[1:]]
    assert steps[0] == ("models/message_verbs.py", "Verbs.claim")
    assert ("claims/claim.py", "LowWater.claim") in steps
    assert ("claims/claims_sql.py", "take") in steps


def test_an_unknown_verb_is_refused_with_those_that_are_known() -> None:
    ended = trace("acknowledge")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert (
        "There is no 'acknowledge': choose from enqueue, claim, second claim, release, nack, ack, archive."
        in ended.stderr
    )
