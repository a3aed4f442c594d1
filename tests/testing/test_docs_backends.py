"""docs/testing.md: Django's immediate and dummy backends do what the page says of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from django_dbqueue.tasks.compat import HOME
from tests.testing.project import ROOT, Project

pytestmark = pytest.mark.once
SECTION = (ROOT / "docs" / "testing.md").read_text().partition("\n## Django's immediate and dummy backends\n")[2]
[TESTS] = re.findall(r"^```python\n(.*?)^```", SECTION.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
SETTINGS = f"""
INSTALLED_APPS += {["mail", *(["django_tasks"] if HOME == "django_tasks" else [])]}
TASKS = {{"default": {{"BACKEND": "django_dbqueue.tasks.DBQueueBackend", "QUEUES": ["default"]}}}}
"""
TASK = """
from django.tasks import task


@task
def welcome(name):
    if name is None:
        raise ValueError("nobody")
    return f"welcome, {name}"
"""
MORE = """
    @override_settings(TASKS=IMMEDIATE)
    def test_a_failure_is_in_the_result_and_is_not_raised(self):
        self.assertEqual(welcome.enqueue(None).status, "FAILED")

    @override_settings(TASKS=IMMEDIATE)
    def test_it_can_not_defer(self):
        from datetime import UTC, datetime

        with self.assertRaises(Exception) as raised:
            welcome.using(run_after=datetime(2098, 1, 1, tzinfo=UTC)).enqueue("ann")
        self.assertIn("run_after", str(raised.exception))

    def test_neither_takes_a_uuid(self):
        import uuid

        for tasks in (IMMEDIATE, DUMMY):
            with self.subTest(tasks), override_settings(TASKS=tasks), self.assertRaises(TypeError):
                welcome.enqueue(uuid.uuid4())
"""


def test_the_backends_do_what_the_page_promises(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("shop/settings.py", SETTINGS)
    project.write("mail/__init__.py", "")
    project.write("mail/tasks.py", TASK.replace("django.tasks", HOME))
    project.write("mail/tests.py", (TESTS + MORE).replace("django.tasks", HOME))
    shown = (TESTS + MORE).count("def test_")
    assert f"Ran {shown} tests" in project.run("python manage.py test mail")
