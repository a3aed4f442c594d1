"""What is checked is what a worker would run: the backends of TASKS and every consumer, though nobody imported them."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

import pytest

from tests.testing.project import Project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.once

SETTINGS: Final = """
from importlib.util import find_spec

DATABASES["default"]["OPTIONS"] = {
    "transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": "PRAGMA journal_mode=WAL; ",
}
"""
OF_THE_BACKPORT: Final = """
if find_spec("django.tasks") is None:
    INSTALLED_APPS.append("django_tasks")
"""
TASKS: Final = """
TASKS = {{"default": {{"BACKEND": "django_dbqueue.tasks.DBQueueBackend", **{options}}}}}
DBQUEUE = {{"QUEUES": {{"forgetful": {{"on_ack": "delete"}}}}}}
"""
CONSUMER: Final = """
from django_dbqueue import consumer

@consumer("default")
def handle(message):
    print("handled", message.payload)
"""
NO_WORKER_STARTS_WITH: Final = """
from django_dbqueue import consumer

@consumer("dbqueue.operations")
def operate(message): ...

@consumer("nightly", cron="0 3 * * *")
def report(message): ...
"""
SCHEDULES: Final = """
DBQUEUE = {"SCHEDULES": {"nightly": {"queue": "reports", "cron": "0 4 * * *"}}}
"""
WITHOUT_CRONSIM: Final = """
import sys
sys.modules["cronsim"] = None
"""
AS_ON_WINDOWS: Final = """
import multiprocessing.context
import os
import signal
import sys

del os.fork, os.forkpty, os.register_at_fork, signal.SIGKILL, signal.SIGCHLD, signal.SIGHUP
sys.modules["resource"] = None
del multiprocessing.context.ForkProcess, multiprocessing.context.ForkContext
"""
"""Imported by Python as it starts: Windows has none of what we use of these."""
ASK: Final = """
import os, sys, traceback

os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django
django.setup()
from django.core.management import CommandError, call_command

for command in sys.argv[1:]:
    print("$", command)
    try:
        call_command(*command.split())
    except (CommandError, SystemExit) as error:
        print("refused:", error)
    except Exception:
        traceback.print_exc(file=sys.stdout)
"""
WRONG: Final = {"QUEUES": ["default", "no queue"], "OPTIONS": {"retries": 3}}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project of which nothing but the settings has been imported when it is checked."""
    made = Project(tmp_path)
    made.write("shop/settings.py", SETTINGS)
    made.write("accounts/queue_consumers.py", CONSUMER)
    made.write("ask.py", ASK)
    return made


def answers(project: Project, *commands: str) -> list[str]:
    """Return what each command says, all of them in one process."""
    output = project.run(f"python -u ask.py {' '.join(map(shlex.quote, commands))} 2>&1")
    return [part.partition("\n")[2] for part in output.split("$ ")[1:]]


@pytest.mark.parametrize("backport", ["installed as an app", "only there"])
def test_errors_of_tasks_are_reported_by_check_and_doctor_and_no_worker_starts(project: Project, backport: str) -> None:
    if backport == "installed as an app":
        project.write("shop/settings.py", OF_THE_BACKPORT)
    project.write("shop/settings.py", TASKS.format(options=WRONG))
    check, _, *others = answers(project, "check", "migrate --skip-checks", "queue_doctor", "run_queue_worker --drain")
    found = dict(re.findall(r"\(dbqueue\.(E\d+)\) (.+)", check))
    assert sorted(found) == ["E020", "E021", "E022"]
    assert "The queue 'default' of TASKS['default'] has the consumer accounts.queue_consumers.handle" in found["E020"]
    assert check.count("(dbqueue.") == 3, "each is told once"
    for answer in others:
        assert all(sentence in answer for sentence in found.values()), answer
        assert "refused:" in answer


@pytest.mark.parametrize(
    ("settings", "of_the_schedule"),
    [
        (SCHEDULES, "(dbqueue.E006) The schedule of the consumer accounts.queue_consumers.report can't be used."),
        (WITHOUT_CRONSIM, "(dbqueue.W024) The due times of the consumer accounts.queue_consumers.report can't be"),
    ],
)
def test_what_a_worker_refuses_of_consumers_check_and_doctor_report_too(
    project: Project, settings: str, of_the_schedule: str
) -> None:
    project.write("shop/settings.py", settings)
    project.write("accounts/queue_consumers.py", NO_WORKER_STARTS_WITH)
    check, _, *others = answers(project, "check", "migrate --skip-checks", "queue_doctor", "run_queue_worker --drain")
    assert check.count("(dbqueue.") == 2
    assert of_the_schedule in check
    found = dict(re.findall(r"\(dbqueue\.(E\d+)\) (.+)", check))
    assert found["E026"].startswith("accounts.queue_consumers.operate has the queue 'dbqueue.operations', which is")
    for output in others:
        assert all(sentence in output for sentence in found.values()), output
        assert "refused:" in output


def test_a_warning_of_tasks_is_reported_once(project: Project) -> None:
    project.write("shop/settings.py", TASKS.format(options={"QUEUES": ["forgetful"]}))
    check, _, doctor = answers(project, "check", "migrate", "queue_doctor")
    assert check.count("(dbqueue.") == check.count("(dbqueue.W020)") == 1
    assert "Acked messages of the queue 'forgetful' are deleted" in doctor


def test_a_backend_for_any_queue_does_not_leave_tasks_to_a_consumer_unheard(project: Project) -> None:
    project.write("shop/settings.py", TASKS.format(options={"QUEUES": []}))
    serve = "run_queue_worker --drain --queues dbqueue.operations"
    check, _, worker = answers(project, "check", "migrate", serve)
    assert "(dbqueue.W022)" in check
    assert "refused:" not in worker, "no backend for any queue has that of the bulk operations"
    assert "tasks that name none go to 'default': the consumer accounts.queue_consumers.handle gets them" in check


def test_consumers_that_cannot_be_imported_are_reported_by_check(project: Project) -> None:
    project.write("accounts/queue_consumers.py", "\nimport no_such_module\n")
    check, worker = answers(project, "check", "run_queue_worker")
    assert "(dbqueue.E024) accounts.queue_consumers can't be imported: ModuleNotFoundError: No module named" in check
    file = project.directory / "accounts" / "queue_consumers.py"
    sentence = f"No module named 'no_such_module' ({file}, line {len(file.read_text().splitlines())})\n"
    assert sentence in check
    assert worker == f"refused: accounts.queue_consumers can't be imported: ModuleNotFoundError: {sentence}"


def test_what_is_wrong_with_a_consumer_is_located_in_the_project(project: Project) -> None:
    project.write("accounts/queue_consumers.py", "\nfrom django_dbqueue import consumer\nconsumer('a b')\n")
    [worker] = answers(project, "run_queue_worker")
    file = project.directory / "accounts" / "queue_consumers.py"
    assert "accounts.queue_consumers can't be imported: InvalidMessage: 'a b' is not a queue name" in worker
    assert worker.endswith(f"({file}, line {len(file.read_text().splitlines())})\n")


def test_consumers_that_query_as_they_are_imported_forbid_no_migration(project: Project) -> None:
    project.write(
        "accounts/queue_consumers.py",
        "\nfrom django_dbqueue.models import Message\nlist(Message.objects.all())\n",
    )
    before, migrate, after = answers(project, "check", "migrate", "check")
    assert "(dbqueue.W021) accounts.queue_consumers queries the database while" in before
    assert "refused:" not in migrate
    assert "no issues" in after


def test_consumers_that_end_the_process_are_reported_with_a_sentence(project: Project) -> None:
    project.write("accounts/queue_consumers.py", "\nimport sys\n\nsys.exit(3)\n")
    check, _, *others = answers(project, "check", "migrate --skip-checks", "run_queue_worker", "queue_doctor")
    for answer in (check, *others):
        assert "accounts.queue_consumers ended the process while it was imported (SystemExit: 3)" in answer
        assert "refused:" in answer
        assert "Traceback" not in answer


def test_without_fork_check_warns_the_worker_refuses_and_the_rest_works(project: Project) -> None:
    (project.site / "sitecustomize.py").write_text(AS_ON_WINDOWS)
    commands = ("check", "migrate -v 0", "queue_send emails 1", "queue_status", "run_queue_worker --drain")
    check, _, sent, status, worker = answers(project, *commands)
    words = "No worker can run on this system: it forks its children, and Python can't fork here (Windows)."
    assert f"(dbqueue.W026) {words}" in check
    assert sent.startswith("1\n")
    assert "emails" in status
    assert worker.startswith(f"refused: {words}\n  Run workers on Linux or macOS, in a container or under WSL.")


def test_options_for_a_queue_whose_name_is_misspelt_are_warned_of(project: Project) -> None:
    project.write("accounts/queue_consumers.py", CONSUMER)
    project.write("shop/settings.py", 'DBQUEUE = {"QUEUES": {"defualt": {"lease": 9}, "of-others": {"lease": 9}}}')
    output = project.run("python manage.py check")
    assert output.count("dbqueue.W027") == 2, "once, and in its hint"
    assert "has options for the queue 'defualt', which has no consumer in this project" in output
    assert "Did you mean 'default'?" in output
