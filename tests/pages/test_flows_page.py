"""docs/flows.md does what it says: its import is reported when all pages are done, or alerts when one dies."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.pages.page_project import ON_SQLITE, ROOT, make_project, run_there, shell

PAGE = (ROOT / "docs" / "flows.md").read_text()
SENDER, CONSUMERS, SUGAR, SPLIT, PROGRESS, URLS, LINK, ASYNC = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(TEMPLATE,) = re.findall(r"```html\n(.*?)```", PAGE, re.DOTALL)
MODELS = """
from django.db import models


class Report(models.Model):
    file = models.IntegerField()
    rows = models.IntegerField()
"""

pytestmark = ON_SQLITE


@pytest.fixture
def project(tmp_path: Path) -> Path:
    modules = {"models": MODELS, "imports": SENDER, "queue_consumers": f"{CONSUMERS}\n\n{SPLIT}"}
    make_project(tmp_path, "files", modules)
    return tmp_path


def test_an_import_is_reported_when_its_pages_are_done(project: Path) -> None:
    shell(project, "from files.imports import start_import", "start_import(17)")
    peeked = run_there(project, "queue_peek", "report", "--state", "waiting", "--why")
    assert "It waits for #1 of its flow." in peeked
    output = run_there(project, "run_queue_worker", "--drain")
    assert "4 done, 0 failed and retried, 0 dead" in output
    assert "has failed" not in output
    counted = shell(project, "from files.models import Report", "print(Report.objects.get().rows)")
    assert counted.splitlines()[-1] == "30"
    assert "import 17" in run_there(project, "queue_status", "--flows")
    read = shell(project, f"number = 1\n{PROGRESS}")
    assert read.splitlines()[-1] == "5 0 0 5"


def test_an_import_that_dies_alerts_and_its_report_waits(project: Path) -> None:
    shell(project, "from files.imports import start_import", "start_import(17)")
    shell(project, "from django_dbqueue.models import Message", "Message.objects.filter(pk=1).reject_waiting('torn')")
    output = run_there(project, "run_queue_worker", "--drain")
    assert "17 has failed" in output
    peeked = run_there(project, "queue_peek", "report", "--state", "waiting", "--why")
    assert "It waits for #1, which is dead." in peeked
    shell(project, "from django_dbqueue.models import Message", "Message.objects.dead().requeue()")
    assert "2 done" in run_there(project, "run_queue_worker", "--drain")


def test_the_shorter_forms_and_children(project: Path) -> None:
    consumers = project / "files" / "queue_consumers.py"
    consumers.write_text(
        f"{consumers.read_text()}\n\n@consumer('orders')\n@consumer('mail')\ndef note(message):\n"
        "    print(sorted(message.payload), flush=True)\n"
    )
    shell(project, "from django_dbqueue import flow", SUGAR)
    output = run_there(project, "run_queue_worker", "--drain")
    order = re.findall(r"\['(\w+)'\]", output)
    assert order[:2] == ["check", "charge"]
    assert order[-1] == "close"
    shell(project, "from django_dbqueue import flow", "with flow('f') as f:\n    f.enqueue({}, queue='files')")
    assert "501 done" in run_there(project, "run_queue_worker", "--drain")


def test_an_import_shows_its_end_users_how_far_it_is(project: Path) -> None:
    (project / "urls.py").write_text(URLS)
    settings_of_page = project / "of_page.py"
    more = [
        'ROOT_URLCONF = "urls"',
        'STATIC_URL = "static/"',
        'ALLOWED_HOSTS = ["testserver"]',
        'TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]',
    ]
    settings_of_page.write_text("\n".join([settings_of_page.read_text(), *more]))
    shell(project, "from files.imports import start_import", "start_import(17)")
    run_there(project, "run_queue_worker", "--max-messages", "1")
    shown = shell(
        project,
        "from django.template import engines",
        "from django_dbqueue.models import Flow",
        f"page = engines['django'].from_string({TEMPLATE!r})",
        "print(page.render({'flow': Flow.objects.get()}))",
    )
    assert '<script src="/static/django_dbqueue/progress.js" defer>' in shown
    assert '<progress aria-label="Your import" value="1" max="5"></progress>' in shown
    output = shell(project, f"number = 1\n{LINK}", "from django.test import Client", "print(Client().get(url).json())")
    answer = ast.literal_eval(output.splitlines()[-1])
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)))) >= set(answer)
    assert (answer["finished"], answer["left"], answer["total"], answer["over"]) == (1, 4, 5, False)


def test_an_import_is_sent_from_async_code(project: Path) -> None:
    sent = shell(project, "import asyncio", ASYNC, "print(asyncio.run(start_import_later(17)))")
    assert sent.splitlines()[-1] == "1"
    assert "4 done" in run_there(project, "run_queue_worker", "--drain")
