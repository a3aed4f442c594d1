from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

KEPT = "kept"
"""The queue that keeps its rows where others have them removed."""


@pytest.fixture
def removing() -> Iterator[None]:
    """An ack removes the row, but in the queue ``KEPT``."""
    with override_settings(DBQUEUE={"DEFAULTS": {"on_ack": "delete"}, "QUEUES": {KEPT: {"on_ack": "keep"}}}):
        yield
