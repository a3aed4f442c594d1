"""When OpenTelemetry watches, and that it costs nothing where it doesn't: in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

_SETTINGS = """
import json, sys
from django.conf import settings
{before}
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django_dbqueue"],
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
    DBQUEUE={dbqueue},
)
import django
django.setup()
from django.core.checks import run_checks
from django_dbqueue import hooks
print(json.dumps({{
    "active": hooks.active is not None,
    "imported": sorted({{name.partition(".")[0] for name in sys.modules}} & {{"opentelemetry", "sentry_sdk"}}),
    "checks": [each.id for each in run_checks()],
}}))
"""
API_ALONE = "import opentelemetry.trace, opentelemetry.metrics"
SDK = "from opentelemetry import trace; from opentelemetry.sdk.trace import TracerProvider; "
PROVIDER = f"{SDK}trace.set_tracer_provider(TracerProvider())"
METERS = (
    "from opentelemetry import metrics; from opentelemetry.sdk.metrics import MeterProvider; "
    "metrics.set_meter_provider(MeterProvider())"
)
MISSING = "sys.modules['opentelemetry'] = None"


def start(before: str = "", **dbqueue: Any) -> dict[str, Any]:
    code = _SETTINGS.format(before=before, dbqueue=repr(dbqueue))
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.once
@pytest.mark.parametrize(
    ("before", "dbqueue", "active"),
    [
        ("", {}, False),
        (API_ALONE, {}, False),
        (PROVIDER, {}, True),
        (METERS, {}, True),
        (PROVIDER, {"TRACE": False}, False),
        ("", {"TRACE": True}, True),
    ],
)
def test_it_watches_if_a_provider_is_set_unless_the_setting_forbids_it(
    before: str, dbqueue: dict[str, Any], active: bool
) -> None:
    assert start(before, **dbqueue)["active"] is active


@pytest.mark.once
def test_nothing_of_it_is_imported_without_a_provider() -> None:
    assert start()["imported"] == []


@pytest.mark.once
def test_a_wish_for_tracing_without_the_package_is_a_check() -> None:
    answer = start(MISSING, TRACE=True)
    assert answer["active"] is False
    assert "dbqueue.E009" in answer["checks"]
    assert "dbqueue.E009" not in start(TRACE=True)["checks"]
    assert "dbqueue.E003" in start(TRACE="yes")["checks"]
