"""``manage.py queue_doctor``: what it prints, and with which exit code it ends."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from tests.doctor.conftest import register  # noqa: F401 - a fixture, used by all
from tests.factories import waiting

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("whole_server")]
WRONG_SETTINGS = {"DEFAULTS": {"backoff": 9, "backoff_max": 3}}


def doctor(*arguments: str) -> tuple[int, str]:
    """Its exit code, and what it printed."""
    out, code = io.StringIO(), 0
    try:
        call_command("queue_doctor", *arguments, stdout=out)
    except SystemExit as end:
        code = int(end.code or 0)
    return code, out.getvalue()


def test_where_nothing_is_wrong_it_ends_with_0_and_a_line_of_counts() -> None:
    code, output = doctor()
    assert code == 0
    *lines, counts = output.splitlines()
    assert counts.startswith("In all: PROBLEM: 0, WARNING: 0, note: ")
    assert lines[0].split()[:2] == ["ok", "settings"]
    assert any(line.startswith("ok       claim-plan          ") for line in lines)


def test_a_warning_is_shown_with_what_to_do_and_ends_it_with_1() -> None:
    waiting(queue="lonely")
    code, output = doctor()
    assert code == 1
    lines = output.splitlines()
    [at] = [number for number, line in enumerate(lines) if line.startswith("WARNING  ")]
    assert lines[at].startswith("WARNING  unserved-queues     No worker serves the queue 'lonely'")
    assert lines[at + 1].startswith(f"{'':<29}→ ")
    assert "WARNING: 1" in lines[-1]


@pytest.mark.parametrize(("level", "expected"), [("note", 1), ("warning", 1), ("problem", 0)])
def test_the_fail_level_decides_what_ends_it_with_1(level: str, expected: int) -> None:
    waiting(queue="lonely")
    assert doctor("--fail-level", level)[0] == expected


def test_notes_alone_end_it_with_0_unless_it_must_fail_on_them() -> None:
    waiting(queue="future", delay=3600)
    assert doctor()[0] == 0
    assert doctor("--fail-level", "note")[0] == 1


@override_settings(DBQUEUE=WRONG_SETTINGS)
def test_json_has_an_object_a_line_for_each_finding() -> None:
    code, output = doctor("--json")
    findings: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
    assert code == 1
    assert all(list(each) == ["check", "level", "found", "do"] for each in findings)
    assert [each["check"] for each in findings if each["level"] == "warning"] == ["settings"]
    assert "backoff_max" in findings[0]["found"]
    assert findings[0]["do"]


@override_settings(DBQUEUE={"DEFAULTS": {"lease": "soon"}})
def test_settings_that_can_not_be_used_are_a_finding_and_no_traceback() -> None:
    code, output = doctor()
    assert code == 1
    assert output.startswith("PROBLEM  settings            DBQUEUE['DEFAULTS']['lease'] must be")
    assert output.splitlines()[-1] == "In all: PROBLEM: 1, WARNING: 0, note: 0, ok: 0."


@override_settings(DBQUEUE={"DATABASE": "defualt"})
def test_a_setting_that_names_no_database_is_a_finding() -> None:
    code, output = doctor()
    assert code == 1
    assert "Did you mean 'default'?" in output


def test_an_unknown_alias_is_wrong_usage() -> None:
    with pytest.raises(CommandError, match="Did you mean 'default'") as refused:
        doctor("--database", "defualt")
    assert refused.value.returncode == 2


def test_wrong_options_end_it_with_2_and_a_run_from_a_shell_works(worker_env: dict[str, str]) -> None:
    def shell(*arguments: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "django", "queue_doctor", *arguments]
        done = subprocess.run(command, env=worker_env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    code, output, complaint = shell("--fail-level", "ok")
    assert (code, output) == (2, "")
    assert "invalid choice: 'ok'" in complaint
    code, output, complaint = shell("--json", "--fail-level", "problem")
    assert (code, complaint) == (0, "")
    assert {json.loads(line)["check"] for line in output.splitlines()} >= {"durability", "migrations", "claim-plan"}
