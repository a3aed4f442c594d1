"""docs/how-to/tenants.md: a worker writes into the schema of each message's tenant, and nowhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.models import Message
from tests.pages.page_project import ROOT
from tests.patience import patience

PAGE = (ROOT / "docs" / "how-to" / "tenants.md").read_text()
FILES = dict(re.findall(r"^In `clinic/(\w+)\.py`:\n\n```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
[SENDER] = re.findall(r"^A sender [^`]*`enqueue`[^\n]*:\n\n```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SCHEMAS = ("north", "south")

pytestmark = pytest.mark.skipif(settings.TEST_DATABASE != "postgres", reason="the others have no schemas in a database")


@pytest.fixture
def clinic(worker_env: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of the page's project, with a schema for each tenant."""
    (tmp_path / "clinic").mkdir()
    for name, text in {"__init__": "", **FILES}.items():
        (tmp_path / "clinic" / f"{name}.py").write_text(text)
    (tmp_path / "of_clinic.py").write_text(
        "from tests.settings import *\nINSTALLED_APPS = [*INSTALLED_APPS, 'clinic']\n"
    )
    with connection.cursor() as cursor:
        for schema in SCHEMAS:
            cursor.execute(f"CREATE SCHEMA {schema}")
            cursor.execute(f"CREATE TABLE {schema}.clinic_visit (id bigserial PRIMARY KEY, patient text NOT NULL)")
    path = os.pathsep.join([str(tmp_path), worker_env["PYTHONPATH"]])
    yield worker_env | {"DJANGO_SETTINGS_MODULE": "of_clinic", "PYTHONPATH": path}
    with connection.cursor() as cursor:
        for schema in SCHEMAS:
            cursor.execute(f"DROP SCHEMA {schema} CASCADE")


def run(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "django", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(120),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shell(environment: dict[str, str], text: str) -> str:
    return run(environment, "shell", "-v", "0", "-c", text)


def patients(schema: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT patient FROM {schema}.clinic_visit ORDER BY patient")
        return [row[0] for row in cursor.fetchall()]


def test_each_message_runs_in_its_tenants_schema_and_one_without_is_dead(clinic: dict[str, str]) -> None:
    more = (
        "with tenant('south'):\n"
        "    enqueue({'patient': 'bob', 'early': True}, queue='visits', headers={'by': 'eve'})\n"
        "from django_dbqueue.models import Message\n"
        "Message.objects.enqueue({'patient': 'cid'}, queue='visits', headers={'tenant': 'gone'})\n"
        "Message.objects.enqueue({'patient': 'dan'}, queue='visits')\n"
    )
    shell(clinic, SENDER + more)
    run(clinic, "run_queue_worker", "--queues", "visits", "--drain", "--verbosity", "0")
    assert (patients("north"), patients("south")) == (["ann"], ["bob"]), "what was retried left nothing the first time"
    reasons = sorted(Message.objects.dead("visits").values_list("error", flat=True))
    assert reasons == ["there is no tenant 'gone'", "there is no tenant None"]
    assert sorted(message.headers["tenant"] for message in Message.objects.done("visits")) == ["north", "south"]
    assert connection.introspection.table_names().count("clinic_visit") == 0, "public has none"


def test_the_path_is_as_before_after_a_tenant_whatever_happened_in_it(clinic: dict[str, str]) -> None:
    printed = shell(
        clinic,
        "from clinic.tenants import _ask, tenant\n"
        "from django.db import transaction\n"
        "def path(): return _ask(\"SELECT current_setting('search_path')\")\n"
        "with transaction.atomic():\n"
        "    before = path()\n"
        "    with tenant('north'):\n"
        "        inner = path()\n"
        "        with tenant('south'): innermost = path()\n"
        "        print(path() == inner != innermost)\n"
        "    print(path() == before)\n"
        "    try:\n"
        "        with tenant('north'): raise KeyError\n"
        "    except KeyError: pass\n"
        "    print(path() == before)\n"
        "print(path() == before)\n",
    )
    assert printed.split() == ["True"] * 4


def test_a_tenants_name_is_quoted(clinic: dict[str, str]) -> None:
    printed = shell(
        clinic,
        "from clinic.tenants import _ask, tenant\n"
        "with tenant('a, \"b'): print(_ask(\"SELECT current_setting('search_path')\"))\n",
    )
    assert printed == '"a, ""b", public\n'
