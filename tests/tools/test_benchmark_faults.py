"""What the scoreboard says follows from what was stored, what handlers committed, and what the queue still knows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from benchmarks.faults import handler
from benchmarks.faults.board import page
from benchmarks.faults.contestants import CONTESTANTS
from benchmarks.faults.run import AGAIN, FAULTS, TIMES, score
from tests.patience import patience
from tests.process.conftest import wait_until

ROOT = Path(__file__).resolve().parents[2]
ABOUT: dict[str, Any] = {
    "date": "2026-11-24",
    "server": "PostgreSQL 17.1",
    "cores": 2,
    "seed": 7,
    "seconds": 15,
    "pythons": {each.adapter: "3.13.1" for each in CONTESTANTS},
    "versions": {each.adapter: "1.2" for each in CONTESTANTS},
}


@pytest.mark.once
def test_what_was_stored_is_done_lost_left_or_failed() -> None:
    found = score({1, 2, 3, 4, 5}, [1, 1, 1, 2, 9], left={4}, failed={5, 2})
    assert found == {"sent": 5, "lost": 1, "doubled": 2, "hung": 1, "failed": 1}
    assert score({1, 2}, [2, 1], left=set(), failed=set()) == {
        "sent": 2,
        "lost": 0,
        "doubled": 0,
        "hung": 0,
        "failed": 0,
    }


@pytest.mark.once
def test_the_page_names_counts_settings_and_who_could_not_run() -> None:
    good = {"sent": 200, "lost": 0, "doubled": 0, "hung": 0, "failed": 0}
    scores = {
        "dbqueue": dict.fromkeys(FAULTS, good),
        "huey": {"kill": good | {"lost": 3, "doubled": 1}, "fail": {"error": "its worker ended"}},
    }
    scores["dbqueue"][AGAIN] = {"seconds": [3.2, 2.64, 3.87]}
    scores["huey"][AGAIN] = {"seconds": []}
    text = page(ABOUT, scores, {"django_ox": "it needs Python 3.12."})
    rows = {
        cells[1].strip(): cells[2:-1] for line in text.splitlines() if len(cells := line.split("|")) == len(FAULTS) + 3
    }
    assert {cell.strip() for cell in rows["django_dbqueue, transactional"]} == {"none of 200"}
    assert [cell.strip() for cell in rows["huey"]][:2] == ["3 lost, 1 doubled of 200", "not run"]
    assert rows["huey"][-1].strip() == "could not run: its worker ended"
    assert {cell.strip() for cell in rows["django-ox"]} == {"not run"}
    assert "*django-ox* was not run: it needs Python 3.12." in text
    assert all(f"| 1.2 | 3.13.1 | {each.promises} | {each.settings} |" in text for each in CONTESTANTS)
    assert "2026-11-24, with PostgreSQL 17.1" in text
    assert "| django_dbqueue, transactional | 2.6 to 3.9 s | about 3 s" in text
    assert "| huey | not within 30 s | never: the task is lost |" in text


@pytest.mark.once
def test_a_handler_waits_to_be_killed_at_the_first_delivery_alone_and_reports_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(handler.DIRECTORY, str(tmp_path))
    (tmp_path / handler.WANTED).touch()
    handler.wait_to_be_killed(3)  # nothing, where no handler is to be killed
    script = "from benchmarks.faults.handler import wait_to_be_killed as wait; wait(40)"
    environment = os.environ | {handler.DIRECTORY: str(tmp_path), handler.KILLED: "1"}
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env=environment) as process:
        try:
            wait_until((tmp_path / handler.VICTIM).exists, "a handler that waits")
        finally:
            process.kill()
    assert (tmp_path / handler.VICTIM).read_text() == f"40 {process.pid}"
    killed = time.time()
    monkeypatch.setenv(handler.KILLED, "1")
    handler.wait_to_be_killed(41)  # nothing, since none is wanted any more
    assert {path.name for path in tmp_path.iterdir()} == {"held-40", handler.VICTIM}
    handler.wait_to_be_killed(40)
    assert float((tmp_path / "again-40").read_text()) >= killed


if settings.TEST_DATABASE == "postgres":

    @pytest.mark.slow
    def test_a_run_kills_and_freezes_and_this_queue_loses_nothing(tmp_path: Path) -> None:
        numbers, text = tmp_path / "numbers.json", tmp_path / "page.md"
        options = ("--only", "dbqueue", "--faults", "kill,session,fail,again", "--seconds", "4", "--seed", "7")
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.faults", *options, "--json", str(numbers), "--page", str(text)],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
            capture_output=True,
            text=True,
            check=False,
            timeout=patience(240),
        )
        assert done.returncode == 0, done.stderr
        scores = json.loads(numbers.read_text())["scores"]["dbqueue"]
        assert set(scores) == {"kill", "session", "fail", "again"}
        assert len(scores["again"]["seconds"]) == TIMES
        assert min(scores.pop("again")["seconds"]) > 0
        for each in scores.values():
            assert each["sent"] > 20
            assert {each[count] for count in ("lost", "doubled", "hung", "failed")} == {0}
        assert scores["kill"]["injected"] > 0
        assert "django_dbqueue, transactional | none of" in text.read_text()
