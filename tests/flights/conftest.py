from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.flights.departures import STORY, write_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def story(tmp_path: Path) -> Path:
    return write_file(tmp_path / "story.csv", *STORY)
