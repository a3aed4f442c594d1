"""Tasks in a database that ``DBQUEUE["DATABASE"]`` doesn't name, as ``--database`` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_dbqueue.tasks.compat import HOME
from tests.testing.project import Project

pytestmark = pytest.mark.once

SETTINGS = """
from importlib.util import find_spec

if find_spec("django.tasks") is None:
    INSTALLED_APPS.append("django_tasks")
DATABASES["queue"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": "queue.sqlite3"}
DBQUEUE = {"DATABASE": "queue"}
OURS = "django_dbqueue.tasks.DBQueueBackend"
TASKS = {"default": {"BACKEND": OURS, "QUEUES": ["default"], "OPTIONS": {"max_attempts": 1}}}
"""
APP = f"""
from django.apps import AppConfig

def hear(sender, task_result, **_):
    print("HEARD", task_result.id, task_result.status, flush=True)

class Accounts(AppConfig):
    name = "accounts"

    def ready(self):
        from {HOME}.signals import task_finished

        task_finished.connect(hear)
"""
TASKS = f"""
from {HOME} import task

@task
def add(a, b):
    return a + b

@task
def fail():
    raise ValueError("no")
"""
ADD = "queue_send --task shop.tasks.add --args '[1, 2]'"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    for path, text in (("settings", SETTINGS), ("tasks", TASKS)):
        project.write(f"shop/{path}.py", text)
    project.write("accounts/apps.py", APP)
    for alias in ("default", "queue"):
        project.run(f"python manage.py migrate --database {alias}")
    return project


def test_a_task_is_sent_into_the_database_that_is_named(project: Project) -> None:
    project.run(f"python manage.py {ADD} --database default")
    drop = "python manage.py queue_drop --queue default --state ready --all --reason x --yes"
    assert "No message of queue 'default'" in project.run(drop, fails=True)
    assert "1 message dropped" in project.run(f"{drop} --database default")


def test_the_end_of_a_task_is_announced_as_its_own_database_has_it(project: Project) -> None:
    for _ in range(3):
        project.run(f"python manage.py {ADD}")
    heard = project.run("python manage.py run_queue_worker --drain")
    assert heard.count("HEARD") == heard.count("SUCCESSFUL") == 3
    project.run("python manage.py queue_send mail {} --database default")
    assert "HEARD" not in project.run("python manage.py queue_drop 1 --reason x --yes --database default")
    project.run(f"python manage.py {ADD} --database default")
    assert "HEARD 2 FAILED" in project.run("python manage.py queue_cancel 2 --reason x --yes --database default")
    project.run("python manage.py queue_send --task shop.tasks.fail --database default")
    assert "HEARD 3 FAILED" in project.run(
        "python manage.py run_queue_worker --drain --database default --queues default"
    )
