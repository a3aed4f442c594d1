"""A task begins as a request does, whatever the one before has left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings

from tests.process.conftest import WorkerProcess

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("kind", ["read_and_leave", "read_and_leave_in_one_commit", "read_and_leave_asynchronously"])
def test_tasks_begin_afresh(start_worker: Callable[..., WorkerProcess], tmp_path: Path, kind: str) -> None:
    from tests.tasks_app import leaving

    for _ in range(4):
        getattr(leaving, kind).enqueue(str(tmp_path / "seen"))
    worker = start_worker(
        *("--queues", "default", "--drain"), DJANGO_SETTINGS_MODULE="tests.process.debugging_settings"
    )
    assert worker.ended() == 0, worker.output
    first, *later = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert first["context"] == [settings.LANGUAGE_CODE, settings.TIME_ZONE, "nothing"]
    assert later == [first] * 3, worker.output
