"""What the doctor says of schedules that operators have added."""

from __future__ import annotations

import sys

import pytest

from django_dbqueue.doctor.examination import examine
from django_dbqueue.models import Schedule
from tests.schedules.timetables import NEVER_NOW, add

pytestmark = pytest.mark.django_db


def test_the_doctor_names_those_that_can_not_run_and_those_that_are_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("broken", "disabled", "good"):
        add(name, cron=NEVER_NOW)
    assert [level for level, _ in found()] == ["ok"]
    Schedule.objects.filter(pk="broken").update(body="{")
    Schedule.objects.disable("disabled")
    _, problem, note = found()
    assert problem[0] == "problem"
    assert problem[1].startswith("The schedule broken, which an operator has added, can't run: ")
    assert note[0] == "note"
    assert note[1].endswith(": disabled")
    monkeypatch.setitem(sys.modules, "cronsim", None)
    _, _, missing, _ = found()
    assert missing[0] == "problem"
    assert "pip install" in missing[1]


def found() -> list[tuple[str, str]]:
    return [(finding.level, finding.found) for finding in examine() if finding.check == "schedules"]
