"""A module of tasks that raises at import, as one of half a release does; and a log that can't be written."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.models import Message
from django_dbqueue.tasks import compat
from django_dbqueue.tasks.compat import TaskResultDoesNotExist
from django_dbqueue.tasks.task_headers import TASK
from django_dbqueue.testing import run_consumers
from tests.tasks.hearing import ENDS, hearing

pytestmark = pytest.mark.django_db(transaction=True)

BROKEN = {
    "raises": "raise RuntimeError('the setting SHOP is missing')",
    "needs another": "import no.such.module",
    "is no Python": "def send(:",
    "lacks a name": "from django_dbqueue import no_such_name",
    "has an invalid task": "from tests.tasks_app.jobs import task\n@task(priority='high')\ndef send(): ...",
    "exits": "import sys; sys.exit(3)",
    "asks what isn't there": "import django; django.no_such_attribute",
}
WHOLE = "from tests.tasks_app.jobs import task\n@task\ndef send(): return 'sent'"


class Raises(logging.Filter):
    """A filter of a project's LOGGING that fails on every record."""

    def filter(self, record: logging.LogRecord) -> bool:
        raise OSError("the log can't be written")


class Refuses(logging.Handler):
    """A handler that does."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError("the log can't be written")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: Any) -> Iterator[Path]:
    """The file of a module ``half_a_release``, which is read anew when it has changed."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path / "half_a_release.py"
    sys.modules.pop("half_a_release", None)


@pytest.fixture(params=["filter", "handler"])
def broken_log(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every log that a task's run writes to raises: ours, Django's of tasks, and that of its signals."""
    loggers = [logging.getLogger(name) for name in ("django_dbqueue.tasks", compat.HOME, "django.dispatch")]
    broken: Any = Raises() if request.param == "filter" else Refuses()
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        (logger.addFilter if request.param == "filter" else logger.addHandler)(broken)
        logger.setLevel(logging.INFO)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        (logger.removeFilter if request.param == "filter" else logger.removeHandler)(broken)
        logger.setLevel(level)


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_module_that_fails_as_it_is_imported_is_waited_for(module: Path, text: str, jobs: Any) -> None:
    module.write_text(text)
    message = Message.objects.enqueue({"args": [], "kwargs": {}}, headers={TASK: "half_a_release.send"}, max_reads=1)
    run_consumers("default", on_error="collect")
    message.refresh_from_db()
    assert (message.status, message.read_count, message.error) == ("n", 0, None)
    with pytest.raises(TaskResultDoesNotExist, match=r"half_a_release\.send, the task of this result, can't be found"):
        jobs.add.get_backend().get_result(str(message.pk))
    module.write_text(WHOLE)
    run_consumers("default", with_delayed=True)
    message.refresh_from_db()
    assert (message.status, message.read_count) == ("y", 1)
    assert jobs.add.get_backend().get_result(str(message.pk)).return_value == "sent"


@pytest.mark.usefixtures("broken_log")
def test_a_log_that_cannot_be_written_charges_nothing_and_ends_nothing(jobs: Any) -> None:
    unknown = Message.objects.enqueue({"args": [], "kwargs": {}}, headers={TASK: "no.such.task"}, max_reads=1)
    good, one_commit, bad = jobs.add.enqueue(1, 2), jobs.pause.enqueue("one"), jobs.fail.enqueue("so it is")
    uncertain = jobs.fail_twice_over.enqueue()
    run_consumers("default", on_error="collect")
    unknown.refresh_from_db()
    assert (unknown.status, unknown.read_count) == ("n", 0)
    for result in (good, one_commit, bad, uncertain):
        result.refresh()
    assert (good.return_value, good.attempts) == (3, 1)
    assert (one_commit.return_value, one_commit.attempts) == ("paused one", 1)
    assert [error.exception_class for error in (*bad.errors, *uncertain.errors)] == [ValueError, ValueError]


@pytest.mark.usefixtures("broken_log")
def test_a_receiver_that_raises_where_the_log_cannot_be_written_ends_nothing(jobs: Any) -> None:
    def refuse(**_: object) -> None:
        raise LookupError("a receiver")

    with hearing(refuse, *ENDS):
        result = jobs.add.enqueue(1, 2)
        run_consumers("default")
    result.refresh()
    assert (result.return_value, result.attempts) == (3, 1)
