from __future__ import annotations

from typing import Any

import pytest

from django_dbqueue.checks.settings_checks import check_settings


@pytest.fixture
def redact(settings: Any) -> Any:
    def redact(setting: Any) -> None:
        settings.DBQUEUE = {"REDACT": setting}
        assert check_settings() == []

    return redact
