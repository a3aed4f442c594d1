from __future__ import annotations

from pathlib import Path

import pytest

from tests.flights.departures import STORY, write_file


@pytest.fixture
def story(tmp_path: Path) -> Path:
    return write_file(tmp_path / "story.csv", *STORY)
