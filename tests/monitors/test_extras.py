"""Each extra alone is enough for what it is for, and nothing of it is imported where it isn't used."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "otel": {"opentelemetry"},
    "sentry": {"sentry_sdk"},
    "health": {"health_check"},
    "": set[str](),
}
"""What each extra brings, of what `contrib` uses; '' is no extra at all."""
USES = {
    "otel": "from django_dbqueue import hooks; assert hooks.active is not None\n"
    "from django_dbqueue.contrib.otel.trace_filter import TraceFilter; TraceFilter()",
    "sentry": "from django_dbqueue.contrib.sentry import DBQueueIntegration\n"
    "import sentry_sdk; sentry_sdk.init(integrations=[DBQueueIntegration()])",
    "health": "from django_dbqueue.contrib.health_check import DBQueue; assert DBQueue(max_age=1.0).max_age == 1.0",
    "": "from django_dbqueue.contrib.openmetrics.metrics_view import metrics\n"
    "from django_dbqueue.contrib.health_view import HealthView; assert callable(metrics) and HealthView.as_view()",
}
_PROJECT = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django_dbqueue"],
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
    DBQUEUE={{"TRACE": {trace}}},
)
import django
django.setup()
from django.core.management import call_command
from django.core.checks import run_checks
assert not [each for each in run_checks() if each.id.startswith("dbqueue")]
call_command("migrate", verbosity=0)
{use}
from django_dbqueue.models import Message
Message.objects.enqueue({{}})
[message] = Message.objects.claim()
message.ack()
found = {packages!r} & {{name.partition(".")[0] for name, module in sys.modules.items() if module is not None}}
assert found == {own!r}, found
print("fine")
"""
ALL = set[str]().union(*PACKAGES.values())


def project(extra: str, *, blocked: set[str]) -> str:
    return _PROJECT.format(
        blocked=sorted(blocked), trace=extra == "otel" or None, use=USES[extra], packages=ALL, own=PACKAGES[extra]
    )


@pytest.mark.parametrize("extra", PACKAGES)
def test_it_needs_none_of_the_other_packages_and_imports_none_of_them(extra: str) -> None:
    code = project(extra, blocked=ALL - PACKAGES[extra])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


@pytest.mark.nightly
@pytest.mark.downloads
@pytest.mark.parametrize("extra", PACKAGES)
def test_pip_installs_it_alone(extra: str, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    what = f"{ROOT}[{extra}]" if extra else str(ROOT)
    pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", what]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    code = project(extra, blocked=set())
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
