from __future__ import annotations

import pytest


@pytest.fixture
def _processes_find_the_database(worker_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs in this process hands its environment to those that it starts."""
    for name in ("DJANGO_SETTINGS_MODULE", "DBQUEUE_TEST_NAME", "PYTHONPATH"):
        monkeypatch.setenv(name, worker_env[name])
