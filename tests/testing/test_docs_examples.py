"""docs/testing.md to the letter: its files are written, its commands run, and no test of it is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.testing.project import ROOT, Project

pytestmark = pytest.mark.once
PAGE = (ROOT / "docs" / "testing.md").read_text()


def test_the_tests_that_the_page_shows_pass(tmp_path: Path) -> None:
    project = Project(tmp_path)
    files = dict(re.findall(r"^In `([^`]+)`:\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    assert len(files) == 5
    for path, text in files.items():
        project.write(path, text)
    commands = re.findall(r"^```console\n\$ (.*)\n```", PAGE, re.MULTILINE)
    assert commands == ["python manage.py test", "python -m pytest"]
    shown = {path: text.count("def test_") for path, text in files.items()}
    # Django's runner finds test*.py too, where pytest's functions are no tests to it
    assert f"Ran {shown['accounts/tests.py']} tests" in project.run(commands[0])
    assert f"{shown['accounts/test_registration.py']} passed" in project.run(commands[1])


def test_the_failure_that_the_page_shows_is_what_a_failure_prints(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(
        "accounts/tests.py",
        """
from datetime import UTC, datetime
from django.test import TestCase
from django_dbqueue.models import Message
from django_dbqueue.testing import assert_enqueued

class Tests(TestCase):
    def test_it(self):
        welcome = Message.objects.enqueue({"user": 1, "mail": "welcome"}, queue="emails", key="welcome 1")
        Message.objects.filter(pk=welcome.pk).update(available_at=datetime(2026, 3, 1, 9, tzinfo=UTC))
        Message.objects.enqueue({}, queue="reminders")
        assert_enqueued("emails", payload={"mail": "reminder"})
""",
    )
    [shown] = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert f"AssertionError: {shown}" in project.run("python manage.py test", fails=True)
