"""A server that is stopped, crashed and started again under load, and a worker that outlives it.

SQLite has no server. A MySQL that is given by its URL is not ours to restart; there the sessions are killed instead
(``test_bad_days``).
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from django.conf import settings

from tests.process.conftest import WorkerProcess, wait_until
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.private import PrivateServer

OURS = {"mariadb": (MariaDB, "mysql"), "postgres": (Postgres, "postgres")}

if settings.TEST_DATABASE in OURS:

    @pytest.fixture
    def server() -> Iterator[PrivateServer]:
        with OURS[settings.TEST_DATABASE][0].running() as running:
            yield running

    def django(environment: dict[str, str], code: str) -> str:
        program = f"import django; django.setup()\nfrom django_dbqueue.models import Message\n{code}"
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @pytest.mark.slow
    def test_restarts_and_crashes_under_load_lose_nothing_and_need_no_restart_of_the_worker(
        server: PrivateServer, tmp_path: Path
    ) -> None:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "DBQUEUE_TEST_URL": server.url,
            "DBQUEUE_TEST_NAME": "restarted",
            "PYTHONUNBUFFERED": "1",
        }
        database = OURS[settings.TEST_DATABASE][1]
        django(
            environment | {"DBQUEUE_TEST_NAME": database},
            "from django.db import connection; connection.cursor().execute('CREATE DATABASE restarted')",
        )
        django(environment, "from django.core.management import call_command; call_command('migrate', verbosity=0)")
        django(environment, "Message.objects.enqueue_many([{'do': 'sleep', 'seconds': 0.01}] * 600, queue='test')")
        worker = WorkerProcess(environment, tmp_path, ("--processes", "2", "--threads", "2", "--batch", "20"))
        try:
            for round_, end in enumerate((server.stop, server.kill, server.stop), start=1):
                worker.wait_for("end", times=100 * round_)
                end()
                worker.wait_for_output("database trouble")
                server.start()
            worker.wait_for("end", times=600)
            done = "print(Message.objects.done('test').count(), Message.objects.exclude(status='y').count())"
            wait_until(lambda: django(environment, done) == "600 0", "all 600 done")
            assert worker.process.poll() is None
            assert worker.output.count("child") == worker.output.count("children"), "no child had to be replaced"
        finally:
            worker.end()
