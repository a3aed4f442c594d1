"""The page on observability: each of its blocks is run, and its tables name what there is, and all of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from django_dbqueue.models import Queue
from tests.factories import QUEUE, done
from tests.insight.passing import begin, count, let_pass
from tests.monitors.test_openmetrics import a_stream_s_progress

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "observability.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PYTHON = [text for kind, text in BLOCKS if kind == "python"]
_PROJECT = """
import sys, types
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django_dbqueue"],
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
    DBQUEUE={{"MONITOR_TOKEN": "token"}}, ROOT_URLCONF="urls", ALLOWED_HOSTS=["testserver"],
    SECRET_KEY="for tests", USE_TZ=True,
)
{first}
import django
django.setup()
from django.core.management import call_command
from django.test import Client
call_command("migrate", verbosity=0)
from django_dbqueue.models import Message, Queue
sys.modules["urls"] = urls = types.ModuleType("urls")
client = Client(headers={{"Authorization": "Bearer token"}})
{then}
"""
AS_URLS = "exec(BLOCK, urls.__dict__)\n"
EPILOGUES = {
    "ConsoleSpanExporter": (True, "Message.objects.enqueue(1); provider.force_flush()", '"name": "enqueue default"'),
    "TraceFilter": (
        False,
        "exec(BLOCK); import logging.config; logging.config.dictConfig(LOGGING); logging.getLogger().warning('sold')",
        "WARNING trace= sold",
    ),
    "metrics_view": (False, f"{AS_URLS}print(client.get('/metrics').content.decode())", "dbqueue_queues_left_out 0"),
    "HealthView": (False, f"{AS_URLS}print(client.get('/health').json())", "{'ok': True, 'problems': []}"),
    "HealthCheckView": (
        False,
        f"{AS_URLS}print(client.get('/health?format=json').content.decode())",
        '"DBQueue(queues=None, max_age=300',
    ),
    "DBQueueIntegration": (
        True,
        "from django_dbqueue import hooks; print([type(each).__name__ for each in hooks.installed()])",
        "['SentryInstrument']",
    ),
    "Loud": (False, "exec(BLOCK); Message.objects.enqueue(1)", "default #1 is in default"),
}


def _case(text: str) -> str:
    """Return which of the epilogues belongs to a block: the last one that it names."""
    [*_, last] = [name for name in EPILOGUES if name in text]
    return last


def test_every_block_has_its_epilogue() -> None:
    assert sorted(map(_case, PYTHON)) == sorted(EPILOGUES)


@pytest.mark.parametrize("text", PYTHON, ids=_case)
def test_a_block_of_python_does_what_the_page_shows(text: str) -> None:
    is_settings, then, expected = EPILOGUES[_case(text)]
    block = f"BLOCK = {text!r}\n"
    code = block + _PROJECT.format(first="exec(BLOCK)" if is_settings else "", then=then)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout + done.stderr, done.stdout + done.stderr


def test_what_is_shipped_is_where_the_page_has_it() -> None:
    [command] = [text for kind, text in BLOCKS if kind == "console" and "importlib" in text]
    line = command.removeprefix("$ python ").strip()
    done = subprocess.run(f"{sys.executable} {line}", shell=True, capture_output=True, text=True, cwd=ROOT, check=True)
    directory = Path(done.stdout.strip())
    for name in ("grafana-dashboard.json", "alert-rules.yml"):
        assert (directory / name).is_file()
        assert f"`{name}`" in PAGE


def test_a_probe_of_kubernetes_distinguishes_an_old_file_from_a_new_one(tmp_path: Path) -> None:
    [probe] = [text for kind, text in BLOCKS if kind == "yaml" and "livenessProbe" in text]
    [_, _, script] = yaml.safe_load(probe)["livenessProbe"]["exec"]["command"]
    file = tmp_path / "alive"
    script = script.replace("/run/worker/alive", str(file))
    codes = []
    for age in (0, 30, 90):
        file.touch()
        moment = time.time() - age
        os.utime(file, (moment, moment))
        codes.append(subprocess.run(["/bin/sh", "-c", script], check=False).returncode)
    assert codes == [0, 0, 1]
    file.unlink()
    assert subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=False).returncode != 0


@pytest.mark.django_db(transaction=True)
def test_the_table_of_figures_names_what_the_page_of_figures_shows(scrape: Callable[[], Any]) -> None:
    begin()
    done()
    Queue.objects.pause(QUEUE, for_=3_600)
    a_stream_s_progress("stream:s")
    let_pass(timedelta(minutes=1))
    count()
    table = PAGE.partition("\n| metric | kind | meaning |\n")[2].partition("\n\n")[0]
    documented = dict(re.findall(r"`(dbqueue_\w+)(?:\{([\w,]+)\})?`", table))
    shown = {}
    for family in scrape().families.values():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        shown[name] = ",".join(sorted(labels, reverse=True))
    assert {name: ",".join(sorted(labels.split(","), reverse=True)) for name, labels in documented.items()} == shown
