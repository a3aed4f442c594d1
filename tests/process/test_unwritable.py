"""A worker that starts where it can't write says so, and what tells more; once it can, it works."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.models import Message
from tests.process.accounts import plain_account

pytestmark = pytest.mark.django_db(transaction=True)
READ_ONLY = "tests.process.read_only_settings"


@pytest.fixture(params=[[], ["--drain"]], ids=["", "drain"])
def refused(request: pytest.FixtureRequest, start_worker: Callable[..., Any]) -> Any:
    """A worker, and a message for it, where nothing can be written."""
    message = Message.objects.enqueue({"do": "ok"}, queue="test")
    return start_worker(*request.param, DJANGO_SETTINGS_MODULE=READ_ONLY), message


def assert_untouched(message: Message, worker_env: dict[str, str]) -> None:
    message.refresh_from_db()
    assert (message.status, message.read_count) == ("n", 0)
    [finding] = findings_of_doctor(worker_env | {"DJANGO_SETTINGS_MODULE": READ_ONLY}, "writable")
    assert finding["level"] == "problem"


if settings.TEST_DATABASE == "sqlite":  # a file that can't be written will not be, unlike a server after a failover

    def test_a_worker_is_refused_a_file_that_can_not_be_written(refused: Any, worker_env: dict[str, str]) -> None:
        worker, message = refused
        assert worker.ended() == 1
        assert re.search(r"dbqueue\.E018.* is read-only", worker.output)
        assert_untouched(message, worker_env)

else:

    def test_a_worker_that_starts_where_nothing_can_be_written_reports_it_and_does_not_repeat_it(
        refused: Any, worker_env: dict[str, str]
    ) -> None:
        worker, message = refused
        worker.wait_for_output("database trouble, retrying: ")
        worker.wait_for_output("manage.py queue_doctor")
        assert worker.process.poll() is None, "it works as soon as it can"
        worker.signal(signal.SIGTERM)
        worker.ended()
        troubles = [
            line.partition("retrying: ")[2] for line in worker.output.splitlines() if "database trouble" in line
        ]
        assert all(re.search("read.?only", text.lower()) for text in troubles)
        assert len(troubles) == len(set(troubles)), "it tries again and again, and says the same once"
        assert_untouched(message, worker_env)

    def test_the_grant_that_the_doctor_names_lets_a_worker_begin_that_had_reported_what_it_lacks(
        start_worker: Callable[..., Any], worker_env: dict[str, str]
    ) -> None:
        message = Message.objects.enqueue({"do": "ok"}, queue="test")
        with plain_account(verbs="SELECT") as account:
            worker = start_worker("--drain", "--queues", "test", **account)
            worker.wait_for_output("database trouble, retrying: ")
            assert "denied" in worker.output
            [finding] = findings_of_doctor(worker_env | account, "rights")
            with connection.cursor() as cursor:
                for grant in finding["do"].split("; "):
                    cursor.execute(grant.replace("%", "%%"), ())
            assert worker.ended() == 0, worker.output
        assert "the database answers again" in worker.output
        message.refresh_from_db()
        assert message.status == "y"


def findings_of_doctor(environment: dict[str, str], check: str) -> list[dict[str, str]]:
    command = [sys.executable, "-m", "django", "queue_doctor", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    return [each for each in findings if each["check"] == check]
