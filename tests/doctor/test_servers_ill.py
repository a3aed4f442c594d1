"""A server of one's own, as ill as it can be started: the doctor names every ill at once, from a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Postgres


class IllMariaDB(MariaDB):
    def command(self) -> list[str]:
        variables = {
            "innodb-flush-log-at-trx-commit": 2,
            "sync-binlog": 0,
            "max-allowed-packet": "1M",
            "wait-timeout": 30,
            "innodb-lock-wait-timeout": 200,
            "default-storage-engine": "MyISAM",
            "read-only": "ON",
            "event-scheduler": "OFF",
        }
        return [*super().command(), *(f"--{name}={value}" for name, value in variables.items())]


class IllPostgres(Postgres):
    def command(self) -> list[str]:
        variables = {
            "fsync": "off",
            "full_page_writes": "off",
            "synchronous_commit": "off",
            "autovacuum": "off",
            "idle_session_timeout": "30s",
            "statement_timeout": "10s",
            "default_transaction_isolation": "serializable",
        }
        return [*super().command(), *(word for name, value in variables.items() for word in ("-c", f"{name}={value}"))]


ILL = {
    "mariadb": (
        IllMariaDB,
        "mysql",
        {
            "durability": "innodb_flush_log_at_trx_commit is 2, sync_binlog is 0",
            "writable": "The database refuses writes (read_only)",
            "packet-size": "packets of up to 1,048,576",
            "read-timeout": "innodb_lock_wait_timeout (200 s)",
            "idle-timeout": "idle for 30 s (wait_timeout)",
            "lock-wait": "200 s",
            "storage": "uses MyISAM",
        },
    ),
    "postgres": (
        IllPostgres,
        "postgres",
        {
            "durability": "(synchronous_commit, fsync, full_page_writes off)",
            "isolation": "SERIALIZABLE",
            "read-timeout": "after 10000 ms",
            "idle-timeout": "idle for 30 s (idle_session_timeout)",
            "storage": "Autovacuum is switched off",
        },
    ),
}
KIND, DATABASE, FINDINGS = ILL[settings.TEST_DATABASE]


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/New_York")  # the words in which MariaDB says when a transaction began
        with KIND.running() as server:
            yield os.environ | {
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "DBQUEUE_TEST_URL": server.url,
                "DBQUEUE_TEST_NAME": DATABASE,
            }


def manage(environment: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "django", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def doctor(environment: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    code, output, complaint = manage(environment, "queue_doctor", "--json")
    assert (code, complaint) == (1, "")
    found: dict[str, list[dict[str, Any]]] = {}
    for line in output.splitlines():
        found.setdefault(json.loads(line)["check"], []).append(json.loads(line))
    return found


def test_before_the_tables_are_made_the_server_is_judged_and_migrate_is_proposed(environment: dict[str, str]) -> None:
    code, _output, complaint = manage(
        environment, "migrate", "django_dbqueue", "zero", "--skip-checks", "--verbosity", "0"
    )
    assert code == 0, complaint
    found = doctor(environment)
    [migrations] = found["migrations"]
    assert migrations["level"] == "problem"
    assert "0001_squashed" in migrations["found"]
    assert migrations["do"] == "manage.py migrate django_dbqueue --database default"
    assert found["durability"][0]["level"] == "warning"
    assert {"claim-plan", "storage", "rights"}.isdisjoint(found)


def test_every_ill_of_the_server_is_reported(environment: dict[str, str]) -> None:
    code, _output, complaint = manage(environment, "migrate", "--verbosity", "0")
    assert code == 0, complaint
    found = doctor(environment)
    for check, words in FINDINGS.items():
        wrong = [each for each in found[check] if each["level"] in {"warning", "problem"}]
        assert any(words in each["found"] for each in wrong), (check, found[check])
        assert all(each["do"] for each in wrong)
    well = {check for check, each in found.items() if all(one["level"] in {"ok", "note"} for one in each)}
    assert {"migrations", "indexes", "rights", "pooler", "clocks"} <= well


if settings.TEST_DATABASE == "mariadb":

    def test_the_age_of_a_transaction_is_right_whatever_the_time_zone_of_the_servers_system(
        environment: dict[str, str],
    ) -> None:
        import MySQLdb

        address = urlsplit(environment["DBQUEUE_TEST_URL"])
        other = MySQLdb.connect(host="127.0.0.1", port=address.port, user="root", database=DATABASE)
        try:
            with other.cursor() as cursor:
                cursor.execute("SELECT @@system_time_zone, TIMESTAMPDIFF(HOUR, UTC_TIMESTAMP(), SYSDATE())")
                [(zone, hours)] = cursor.fetchall()
                assert zone in {"EST", "EDT"}
                assert hours < 0
                cursor.execute("CREATE TABLE IF NOT EXISTS held (id int) ENGINE=InnoDB")
                cursor.execute("BEGIN")
                cursor.execute("SELECT id FROM held FOR UPDATE")
            [finding] = doctor(environment)["oldest-transaction"]
            assert finding["level"] == "ok", finding["found"]
        finally:
            other.close()
