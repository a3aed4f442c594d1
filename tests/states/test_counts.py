"""What is counted in the log."""

from __future__ import annotations

from django_dbqueue.states.counts import counted


def test_one_is_singular_and_no_other_number_is() -> None:
    assert [counted(number, "process", "processes") for number in (0, 1, 2)] == [
        "0 processes",
        "1 process",
        "2 processes",
    ]
    assert [counted(number, "thread") for number in (1, 4)] == ["1 thread", "4 threads"]
