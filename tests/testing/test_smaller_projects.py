"""Projects that have left out the admin, accounts, content types, messages or sessions: all but the admin works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.testing.project import Project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.once

SUBSETS: Final = {
    "without-the-admin": ("auth", "contenttypes", "sessions", "messages"),
    "without-messages-and-sessions": ("auth", "contenttypes"),
    "without-auth": ("contenttypes", "sessions", "messages"),
    "without-contenttypes": ("sessions", "messages"),
    "without-sessions": ("messages",),
    "without-any": (),
}
"""What a project has of ``django.contrib``. Accounts need content types, and the admin needs all the others."""
SETTINGS: Final = """
from importlib.util import find_spec

CONTRIB = {contrib!r}
INSTALLED_APPS = ["django_dbqueue", "accounts", *(f"django.contrib.{{name}}" for name in CONTRIB)]
if find_spec("django.tasks") is None:
    INSTALLED_APPS.append("django_tasks")
TEMPLATES = [{{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}}]
TASKS = {{"default": {{"BACKEND": "django_dbqueue.tasks.DBQueueBackend", "QUEUES": ["default"]}}}}
DBQUEUE = {{"MONITOR_TOKEN": "s3cret"}}
ALLOWED_HOSTS = ["testserver"]
ROOT_URLCONF = "shop.urls"
"""
URLS: Final = """
from django.urls import include, path
from django_dbqueue.contrib.health_view import HealthView
from django_dbqueue.contrib.openmetrics.metrics_view import metrics

urlpatterns = [
    path("metrics", metrics),
    path("health", HealthView.as_view()),
    path("progress/", include("django_dbqueue.urls")),
]
"""
CONSUMERS: Final = """
from django_dbqueue import consumer

@consumer("echo")
def echo(message):
    print("heard", message.payload)
"""
TASKS: Final = """
from django_dbqueue.tasks.compat import HOME

if HOME == "django.tasks":
    from django.tasks import task
else:
    from django_tasks import task

@task
def add(a, b):
    return a + b
"""
A_DAY: Final = """
import os, sys

os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django
django.setup()
from django.core.management import call_command
from django.db import connections
from django.template import engines
from django.test import Client
from accounts.tasks import add
from django_dbqueue.models import Message

call_command("check", fail_level="WARNING")
call_command("migrate", verbosity=0)
call_command("queue_doctor")
message, result = Message.objects.enqueue("a message", queue="echo"), add.enqueue(2, 3)
page = "{% load i18n dbqueue %}plain {% dbqueue_progress message %}"
print(engines["django"].from_string(page).render({"message": message}))
call_command("queue_peek", "echo")
connections.close_all()
try:
    call_command("run_queue_worker", drain=True)
except SystemExit as end:
    assert not end.code, end.code
result.refresh()
print("the task returned", result.return_value)
call_command("queue_status")
monitor = {"HTTP_AUTHORIZATION": "Bearer s3cret"}
print("metrics", Client().get("/metrics", **monitor).status_code)
print("health", Client().get("/health", **monitor).status_code)
print("to a stranger", Client().get("/metrics").status_code)
"""
EVERY_MODULE: Final = """
import os, pkgutil

os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django
django.setup()
import django_dbqueue

OTHERS = ("admin.", "spark", "testing", "contrib.otel", "contrib.sentry")

def modules(package, before):
    for each in pkgutil.iter_modules(package.__path__):
        name = before + each.name
        if not f"{name}.".startswith(OTHERS):
            print("imports", name)
            module = __import__(f"django_dbqueue.{name}", fromlist=["x"])
            if each.ispkg:
                modules(module, f"{name}.")

modules(django_dbqueue, "")
"""


def a_project(directory: Path, contrib: tuple[str, ...]) -> Project:
    """Make a project with these apps of Django's, a consumer and a task."""
    project = Project(directory)
    project.write("shop/settings.py", SETTINGS.format(contrib=list(contrib)))
    options = '{"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": "PRAGMA journal_mode=WAL; "}'
    project.write("shop/settings.py", f'\nDATABASES["default"]["OPTIONS"] = {options}\n')
    project.write("shop/urls.py", URLS)
    project.write("accounts/queue_consumers.py", CONSUMERS)
    project.write("accounts/tasks.py", TASKS)
    return project


@pytest.mark.parametrize("contrib", SUBSETS.values(), ids=SUBSETS)
def test_a_queue_needs_nothing_of_django_contrib(tmp_path: Path, contrib: tuple[str, ...]) -> None:
    project = a_project(tmp_path, contrib)
    project.write("a_day.py", A_DAY)
    output = project.run("python a_day.py")
    assert "plain" in output
    assert ">waiting</span>" in output
    assert "heard a message" in output
    assert "the task returned 5" in output
    assert "metrics 200\nhealth 200" in output
    assert "to a stranger 401" in output


def test_only_the_admin_itself_imports_what_a_project_may_have_left_out(tmp_path: Path) -> None:
    project = a_project(tmp_path, ())
    project.write("every_module.py", EVERY_MODULE)
    output = project.run("python every_module.py")
    assert "imports management.commands.queue_doctor" in output
    assert "imports worker.bulk_steps" in output


@pytest.mark.parametrize(
    "code",
    [
        "from django_dbqueue.models import Message",
        "from django_dbqueue import flow",
        "import accounts.tasks",
    ],
)
def test_a_project_that_has_not_installed_the_app_learns_what_to_add(tmp_path: Path, code: str) -> None:
    project = a_project(tmp_path, ())
    project.write("shop/settings.py", "\nINSTALLED_APPS.remove('django_dbqueue')\n")
    output = project.run(f'python manage.py shell -c "{code}"', fails=True)
    last = output.splitlines()[-1]
    assert last.startswith('django.core.exceptions.ImproperlyConfigured: Add "django_dbqueue" to INSTALLED_APPS: ')
