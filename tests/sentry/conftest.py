from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.otel.span_file import read
from tests.process.conftest import start_worker as start_worker


@pytest.fixture
def worker_env(worker_env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Every worker of these tests sends its envelopes into one file."""
    return worker_env | {
        "DJANGO_SETTINGS_MODULE": "tests.sentry.watched_settings",
        "DBQUEUE_TEST_ENVELOPES": str(tmp_path / "envelopes.jsonl"),
    }


@pytest.fixture
def envelopes(tmp_path: Path) -> Callable[[str], list[dict[str, Any]]]:
    """Read what all processes have sent of a type so far."""
    return lambda kind: [line for line in read(tmp_path / "envelopes.jsonl") if line["type"] == kind]
