"""Tables stay aligned where a character takes two columns of the terminal, or none."""

from __future__ import annotations

import pytest

from django_dbqueue.management.console import table
from django_dbqueue.management.terminal_width import columns_of, padded


@pytest.mark.parametrize(
    ("text", "columns"), [("", 0), ("ready", 5), ("就绪", 4), ("（", 2), ("é", 1), ("e\N{COMBINING ACUTE ACCENT}", 1)]
)
def test_a_text_is_as_wide_as_the_terminal_shows_it(text: str, columns: int) -> None:
    assert columns_of(text) == columns


def test_blanks_fill_what_is_left_and_cut_nothing() -> None:
    assert padded("就绪", 6) == "就绪  "
    assert padded("就绪", 6, at_the_right=True) == "  就绪"
    assert padded("就绪", 3) == "就绪"


def test_the_columns_of_a_table_begin_and_end_together() -> None:
    assert table(["队列", "就绪"], [["emails", "10"], ["a", "1"]]) == ["队列    就绪", "emails    10", "a          1"]
