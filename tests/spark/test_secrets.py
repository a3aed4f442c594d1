"""The password appears nowhere: plans, the UI, event logs, checkpoints, progress, pickles, whatever was printed."""

from __future__ import annotations

import base64
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import Message
from django_dbqueue.spark import Credentials
from tests.conftest import ROOT
from tests.patience import patience

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def sql(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


if settings.TEST_DATABASE == "mariadb":

    @pytest.fixture
    def account(transactional_db: None) -> Iterator[Credentials]:
        """An account with a password of its own on the test database."""
        name, password = f"marker_{secrets.token_hex(4)}", f"Marker-{secrets.token_hex(16)}"
        base = credentials_of("default")
        sql(
            f"CREATE USER '{name}'@'%' IDENTIFIED BY '{password}'",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON `{base.name}`.* TO '{name}'@'%'",
        )
        yield replace(base, user=name, password=password)
        sql(f"DROP USER '{name}'@'%'")

    def test_the_password_is_found_nowhere(account: Credentials, tmp_path: Path) -> None:
        file = tmp_path / "credentials.json"
        file.write_text(account.to_json())
        file.chmod(0o600)
        shared = tmp_path / "shared"
        shared.mkdir()
        driver = subprocess.run(
            [sys.executable, "-m", "tests.spark.drivers.with_a_secret", str(shared), str(file)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=patience(300),
            check=False,
        )
        assert driver.returncode == 0, driver.stdout.decode(errors="replace")[-6000:]
        assert Message.objects.done("secret").count() == 10
        (shared / "printed.txt").write_bytes(driver.stdout)
        searched = {path.relative_to(shared): path.read_bytes() for path in shared.rglob("*") if path.is_file()}
        for part in ("events", "checkpoint", "sink"):
            assert any(str(path).startswith(part) for path in searched), part
        # where the credentials are is found, so that the search does find what is there
        assert any(str(file).encode() in content for content in searched.values())
        for form in (account.password.encode(), base64.b64encode(account.password.encode())):
            assert [path for path, content in searched.items() if form in content] == []
