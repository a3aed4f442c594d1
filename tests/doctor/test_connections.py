"""What the doctor says of the connections that all workers need together."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import override_settings

from django_dbqueue.doctor import connection_checks
from django_dbqueue.models import Worker
from tests.doctor.conftest import AGO, examined, levels, worker

pytestmark = pytest.mark.django_db
LISTENS = settings.TEST_DATABASE == "postgres"


def test_what_processes_threads_and_hosts_need_adds_up() -> None:
    worker(1, beat_every=10_000)
    worker(2, beat_every=10_000)
    Worker.objects.filter(pk=2).update(threads=8, host="elsewhere")
    worker(3, beat_at=AGO, late_at=AGO)
    [finding] = examined()["connections"]
    assert finding.level == "ok"
    need = 1 + 8 + 2 * 2 + 2 * 2 + 2 * LISTENS
    assert f"(processes: 2, hosts: 2, threads: 9) use up to {need} connections" in finding.found
    with override_settings(DBQUEUE={"NOTIFY": False}):
        assert f"use up to {need - 2 * LISTENS} connections" in examined()["connections"][0].found


def test_more_than_the_server_takes_is_a_warning() -> None:
    worker(1, beat_every=10_000)
    Worker.objects.update(threads=100_000)
    [finding] = examined()["connections"]
    assert finding.level == "warning"
    assert "max_connections" in finding.do


def test_what_others_use_in_addition_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_checks, "OWN", 0)  # so none of what is in use is the worker's
    worker(1, beat_every=10_000)
    takes = int(examined()["connections"][0].found.split("the server takes ")[1].split(",")[0])
    Worker.objects.update(threads=takes - 2 - LISTENS)
    assert levels(examined(), "connections") == ["note"]
    Worker.objects.update(threads=takes - 1 - LISTENS)
    assert levels(examined(), "connections") == ["warning"]
