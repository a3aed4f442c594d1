"""What is released works where it is installed, and no tag is set on what isn't ready."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "delta": "deltalake",
    "health": "health_check",
    "mysql": "MySQLdb",
    "otel": "opentelemetry",
    "postgres": "psycopg",
    "progress": "rich",
    "schedules": "cronsim",
    "sentry": "sentry_sdk",
    "spark": "pyspark",
    "tasks": "django_tasks",
    "testing": "factory",
}
_WITHOUT = """
import sys
for name in {others!r}:
    sys.modules[name] = None
from django.conf import settings
settings.configure(INSTALLED_APPS=["django_dbqueue"])
import django
django.setup()
{use}
"""
GIT = ("git", "-c", "user.name=Test", "-c", "user.email=test@example.org")


@pytest.mark.slow
@pytest.mark.downloads
def test_a_wheel_and_an_sdist_are_built_and_each_drains_a_queue(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "bin/release", "build", "--into", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel], [sdist] = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    assert f"{wheel.name} works" in done.stderr
    assert f"{sdist.name} works" in done.stderr
    with zipfile.ZipFile(wheel) as archive:
        assert {name.split("/")[0].split("-")[0] for name in archive.namelist()} == {
            "django_dbqueue",
            "pyspark_dbqueue.py",
        }
        assert "django_dbqueue/py.typed" in archive.namelist()
    with tarfile.open(sdist) as archive:
        assert any(name.endswith("/tests/conftest.py") for name in archive.getnames())


@pytest.mark.nightly
@pytest.mark.downloads
def test_each_extra_works_alone() -> None:
    done = subprocess.run([ROOT / "bin/release", "extras"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the extra spark works" in done.stderr


@pytest.mark.parametrize("extra", PACKAGES)
def test_what_needs_an_extra_imports_none_of_the_others_packages(extra: str) -> None:
    """What the night asks with pip, asked of the checkout."""
    uses = dict(re.findall(r'^  \[([a-z]+)\]="(.+)"$', (ROOT / "bin/release").read_text(), re.MULTILINE))
    assert uses.keys() == PACKAGES.keys()
    others = [package for name, package in PACKAGES.items() if name != extra]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT.format(others=others, use=uses[extra])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    missing = re.findall(
        r"ModuleNotFoundError: No module named '(\w+)|^ModuleNotFoundError: import of (\w+)", done.stderr
    )
    assert done.returncode == 0 or {PACKAGES[extra]} == {one or other for one, other in missing}, done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Its own repository, of what the command looks at before it builds."""
    for name in ("bin/release", "pyproject.toml", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "All")):
        subprocess.run([*GIT, *command], cwd=tmp_path, check=True)
    return tmp_path


def tagged(checkout: Path) -> str:
    done = subprocess.run([checkout / "bin/release", "tag"], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr


def test_a_version_that_the_changelog_does_not_have_is_not_tagged(checkout: Path) -> None:
    changelog = checkout / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## [0.1.0] - ", "## [0.0.9] - "))
    subprocess.run(
        [*GIT, "commit", "--quiet", "--all", "--allow-empty", "--message", "Forget it"], cwd=checkout, check=True
    )
    assert "CHANGELOG.md has no heading '## [0.1.0] - YYYY-MM-DD'" in tagged(checkout)


def test_what_is_not_committed_is_not_tagged(checkout: Path) -> None:
    (checkout / "new.py").touch()
    assert "changes that are not committed" in tagged(checkout)


def test_a_tag_is_not_set_twice(checkout: Path) -> None:
    subprocess.run([*GIT, "tag", "v0.1.0"], cwd=checkout, check=True)
    assert "the tag v0.1.0 already exists" in tagged(checkout)


def test_what_it_does_not_know_it_explains(checkout: Path) -> None:
    done = subprocess.run([checkout / "bin/release", "publish"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "bin/release tag" in done.stdout
