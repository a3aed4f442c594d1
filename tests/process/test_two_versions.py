"""A rolling upgrade: the previous version's workers and this one's drain one queue, on this version's tables.

The previous version is the last release; before the first, it is the newest commit whose tables are others. Its code is
taken from git, and runs as its own processes with what is installed here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.models import Message, Queue
from tests.conftest import ROOT
from tests.factories import let_pause_end
from tests.patience import patience
from tests.process.conftest import WorkerProcess, wait_until, whole_lines

pytestmark = pytest.mark.django_db(transaction=True)

SETTINGS = """
from tests.settings import *

INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_dbqueue", "shared"]
"""
BARE = SETTINGS.replace(', "shared"', "")
TABLES = """
from django.apps import apps

for model in apps.get_app_config("django_dbqueue").get_models(include_auto_created=True):
    for field in model._meta.local_concrete_fields:
        print(model._meta.db_table, field.column, field.get_internal_type(), field.null, field.max_length)
    for index in [*model._meta.indexes, *model._meta.constraints]:
        print(model._meta.db_table, index.name)
"""
CONSUMERS = """
import os
import time

from django_dbqueue import consumer


@consumer("shared", lease=float(os.environ.get("LEASE", "3")))
def handle(message):
    line = f"{os.environ['VERSION']} {message.pk} {message.read_count}\\n"
    log = os.open(os.environ["SHARED_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, line.encode())
    os.close(log)
    time.sleep(600 if os.environ.get("HOLDS") else 0.005)
"""


def _git(*arguments: str) -> str:
    command = ["git", "-c", "safe.directory=*", *arguments]  # a CI's container may run as somebody else
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the previous version's package."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout, so there is no previous version here")
    if revision := os.environ.get("DBQUEUE_TEST_PREVIOUS") or _last_release():
        return _package_of(revision, tmp_path_factory)
    here = _tables(ROOT, tmp_path_factory)
    for commit in _git("log", "--format=%H", "--", "django_dbqueue/migrations").split():
        directory = _package_of(f"{commit}^", tmp_path_factory)
        if _tables(directory, tmp_path_factory) != here:
            return directory
    raise AssertionError("no version with other tables is here: git fetch --unshallow --tags")


def _last_release() -> str:
    return _git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^")


def _package_of(revision: str, directories: pytest.TempPathFactory) -> Path:
    """A directory with the package as it was then."""
    found = _git("rev-parse", "--verify", f"{revision}^{{commit}}")
    assert found, f"the previous version ({revision}) is not here: git fetch --unshallow --tags"
    directory = directories.mktemp("previous")
    package = directory / "package.tar"
    _git("archive", "--output", str(package), found, "django_dbqueue")
    subprocess.run(["tar", "--extract", "--file", package, "--directory", directory], check=True)
    return directory


def _tables(package: Path, directories: pytest.TempPathFactory) -> set[str]:
    """Columns and indexes of this package's tables."""
    settings = directories.mktemp("settings")
    (settings / "bare.py").write_text(BARE)
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "bare",
        "PYTHONPATH": os.pathsep.join(map(str, [package, settings, ROOT])),
        "PYTHONSAFEPATH": "1",
    }
    return set(_run(environment, TABLES).splitlines())


@pytest.fixture
def environment_of(previous: Path, tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """The environment in which processes run the previous version, or this one, with one consumer."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "__init__.py").touch()
    (tmp_path / "shared" / "queue_consumers.py").write_text(CONSUMERS)
    (tmp_path / "two_versions.py").write_text(SETTINGS)

    def environment(version: str) -> dict[str, str]:
        package = {"previous": previous, "this": ROOT}[version]
        return {
            "DJANGO_SETTINGS_MODULE": "two_versions",
            "PYTHONPATH": os.pathsep.join(map(str, [package, tmp_path, ROOT])),
            "PYTHONSAFEPATH": "1",  # else the directory that it starts in, this checkout, comes first
            "SHARED_LOG": str(tmp_path / "shared.log"),
            "VERSION": version,
        }

    return environment


@pytest.fixture
def start(
    start_worker: Callable[..., WorkerProcess], environment_of: Callable[[str], dict[str, str]]
) -> Callable[..., WorkerProcess]:
    """Start a worker of a version."""

    def started(version: str, *arguments: str, **more: str) -> WorkerProcess:
        return start_worker("--batch", "4", *arguments, **environment_of(version), **more)

    return started


def handled(tmp_path: Path) -> list[tuple[str, int, int]]:
    """Version, id and number of the delivery, as the consumers wrote them down."""
    lines = [line.split() for line in whole_lines(tmp_path / "shared.log")]
    return [(version, int(message_id), int(read)) for version, message_id, read in lines]


def test_the_previous_version_is_another_one(
    worker_env: dict[str, str], environment_of: Callable[[str], dict[str, str]], previous: Path
) -> None:
    assert _run(worker_env | environment_of("previous"), "print(django_dbqueue.__file__)").startswith(str(previous))
    assert _run(worker_env | environment_of("this"), "print(django_dbqueue.__file__)").startswith(str(ROOT))


def test_the_previous_version_is_a_release_or_has_other_tables(
    previous: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Else one version would be tried with itself: a squash of the migrations is a change of none."""
    there, here = (_tables(package, tmp_path_factory) for package in (previous, ROOT))
    assert len(there) > 100
    assert there != here or _last_release()


def test_both_versions_drain_one_queue_and_handle_each_message_once(
    start: Callable[..., WorkerProcess],
    worker_env: dict[str, str],
    environment_of: Callable[[str], dict[str, str]],
    tmp_path: Path,
) -> None:
    # Nobody dies here, and on a busy machine a lease of three seconds would expire in a living hand.
    workers = [start(version, LEASE="600") for version in ("previous", "this")]
    send = "from django_dbqueue.models import Message\nMessage.objects.enqueue_many(range(200), queue='shared')"
    Message.objects.enqueue_many(range(200), queue="shared")
    _run(worker_env | environment_of("previous"), send)
    wait_until(lambda: Message.objects.done("shared").count() == 400, lambda: "\n".join(w.output for w in workers))
    for worker in workers:
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0, worker.output
    found = handled(tmp_path)
    assert len(found) == 400
    assert {message_id for _, message_id, _ in found} == set(Message.objects.values_list("pk", flat=True))
    assert Counter(version for version, _, _ in found).keys() == {"previous", "this"}


@pytest.mark.parametrize(("dies", "goes_on"), [("previous", "this"), ("this", "previous")])
def test_what_a_killed_worker_of_one_version_held_a_worker_of_the_other_finishes(
    dies: str, goes_on: str, start: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    message = Message.objects.enqueue("held", queue="shared")
    killed = start(dies, HOLDS="yes")
    wait_until(lambda: handled(tmp_path) == [(dies, message.pk, 1)], lambda: killed.output)
    killed.signal_all(signal.SIGKILL)
    worker = start(goes_on)
    wait_until(lambda: Message.objects.done("shared").exists(), lambda: worker.output)
    assert handled(tmp_path) == [(dies, message.pk, 1), (goes_on, message.pk, 2)]
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


@pytest.mark.parametrize(("pauses", "obeys"), [("previous", "this"), ("this", "previous")])
def test_a_queue_that_one_version_pauses_is_paused_for_the_other(
    pauses: str,
    obeys: str,
    start: Callable[..., WorkerProcess],
    worker_env: dict[str, str],
    environment_of: Callable[[str], dict[str, str]],
    tmp_path: Path,
) -> None:
    Message.objects.enqueue("waits", queue="shared")
    _run(
        worker_env | environment_of(pauses),
        "from django_dbqueue.models import Queue\nQueue.objects.pause('shared', reason='the upgrade', by='ann')",
    )
    worker = start(obeys, "--drain")
    assert worker.ended() == 0, worker.output
    assert handled(tmp_path) == []
    Queue.objects.resume("shared")
    assert start(obeys, "--drain").ended() == 0
    assert [version for version, _, _ in handled(tmp_path)] == [obeys]


def test_a_pause_with_an_end_is_one_without_for_a_version_that_knows_of_none(
    start: Callable[..., WorkerProcess],
    worker_env: dict[str, str],
    environment_of: Callable[[str], dict[str, str]],
    tmp_path: Path,
) -> None:
    asks = "from django_dbqueue.models import Queue\nprint(hasattr(Queue, 'pause_set'))"
    knows = _run(worker_env | environment_of("previous"), asks) == "True"
    Message.objects.enqueue("waits", queue="shared")
    Queue.objects.pause("shared", for_=3_600, reason="the upgrade", by="ann")
    let_pause_end("shared")
    for version in ("previous", "this"):
        worker = start(version, "--drain")
        assert worker.ended() == 0, worker.output
    assert [version for version, _, _ in handled(tmp_path)] == ["previous" if knows else "this"]


def _run(environment: dict[str, Any], code: str) -> str:
    """Run code in one of the versions, with Django set up, and return what it prints."""
    program = f"import django, django_dbqueue\ndjango.setup()\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(120),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()
