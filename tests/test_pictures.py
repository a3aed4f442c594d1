"""The pictures in the documentation are those that ``bin/pictures`` took; their pages say whether they are of today."""

from __future__ import annotations

import re

import pytest

from tests.admin import pictures

pytestmark = pytest.mark.once

NAMES = sorted(path.stem for path in pictures.IMAGES.glob("*.png"))


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_on_a_page_and_came_with_the_text_of_what_it_shows(name: str) -> None:
    pages = [*(pictures.ROOT / "docs").rglob("*.md"), pictures.ROOT / "README.md"]
    assert any(f"images/{name}.png" in page.read_text() for page in pages), "no page shows it"
    assert pictures.is_of_its_text(name), f"{name}.png is not what bin/pictures took. {pictures.AGAIN}"


def test_each_picture_is_made_by_a_test_and_no_text_outlives_its_picture() -> None:
    tests = "".join(path.read_text() for path in (pictures.ROOT / "tests" / "admin").glob("test_*browser*.py"))
    assert sorted(re.findall(r'page\.picture\("(\w+)"\)', tests)) == NAMES
    assert sorted(path.stem for path in pictures.TEXTS_OF.glob("*.txt")) == NAMES


def test_what_differs_from_run_to_run_is_left_out_of_a_text() -> None:
    first = ["Its lease expired 9 min 4 s ago.", "#1,311", "Nov. 24, 2026, 4:10 p.m.", "Updated at 4:10:06 PM", "1 s"]
    later = ["Its lease expired 10 min ago.", "#7", "May 1, 2027, noon", "Updated at 14:10", "0.9 s"]
    assert pictures.steady(first) == pictures.steady(later)
    assert pictures.steady(["its lease is over since 9 min"]) != pictures.steady(["its lease expired 9 min ago"])
