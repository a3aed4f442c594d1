from __future__ import annotations

from typing import Any

import pytest

from django_dbqueue.checks.settings_checks import check_settings


@pytest.fixture
def redact(settings: Any) -> Any:
    def redact(said: Any) -> None:
        settings.DBQUEUE = {"REDACT": said}
        assert check_settings() == []

    return redact
