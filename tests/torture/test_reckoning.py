"""What is counted as wrong: each broken promise, told by a history and the rows at its end."""

from __future__ import annotations

from typing import Any

import pytest

from django_dbqueue.states.table import Stage
from django_dbqueue.testing.torture.reckoning import WRONG, Reckoning, Row, reckon

pytestmark = pytest.mark.once
LIMITS = {"ordered": 1, "limited": 2}
A, B, C = "s/1", "s/2", "s/3"


def row(number: str, *, queue: str = "ordered", stage: Stage = Stage.FINISHED) -> Row:
    return Row(number, queue, "g", stage)


def transaction(*numbers: str, end: str | None = "sent") -> list[dict[str, Any]]:
    return [{"step": step, "numbers": list(numbers)} for step in ("sending", end) if step]


def begun(number: str, *, reads: int = 1, queue: str = "ordered") -> dict[str, Any]:
    return {"step": "begin", "n": number, "reads": reads, "queue": queue, "group": "g"}


def ended(number: str, *, reads: int = 1, failed: bool = False) -> dict[str, Any]:
    return {"step": "end", "n": number, "reads": reads, "failed": failed}


def of(notes: list[dict[str, Any]], rows: list[Row], effects: list[str]) -> Reckoning:
    return reckon(notes, rows, effects, limits=LIMITS)


def assert_only(found: Reckoning, **wrong: int) -> None:
    assert {name: count for name in WRONG if (count := getattr(found, name))} == wrong, found
    assert found.is_good == (not wrong)
    assert {name: len(examples) for name, examples in found.examples.items()} == wrong


def test_what_was_sent_delivered_and_done_is_good() -> None:
    notes = [*transaction(A, B), begun(A), ended(A, failed=True), begun(A, reads=2), ended(A, reads=2), begun(B)]
    found = of([*notes, ended(B)], [row(A), row(B)], [A, B])
    assert_only(found)
    assert (found.transactions, found.sent, found.done, found.deliveries, found.failed) == (1, 2, 2, 3, 1)


def test_a_message_that_was_committed_and_is_not_there_is_lost() -> None:
    assert_only(of(transaction(A, B), [row(A)], [A]), lost=1)


def test_a_dead_message_is_lost_and_an_unfinished_one_hung() -> None:
    rows = [row(A, stage=Stage.DEAD), row(B, stage=Stage.UNCLAIMED), row(C, stage=Stage.CLAIMED)]
    assert_only(of(transaction(A, B, C), rows, []), lost=1, hung=2)


def test_of_a_transaction_that_was_not_confirmed_all_or_nothing_is_there() -> None:
    assert_only(of(transaction(A, B, end=None), [], []))
    assert_only(of(transaction(A, B, end=None), [row(A), row(B)], [A, B]))
    assert_only(of(transaction(A, B, end=None), [row(A)], [A]), torn=1)


def test_what_was_rolled_back_or_never_sent_must_not_be_there() -> None:
    found = of(transaction(A, end="rolled back"), [row(A), row(B)], [A, B])
    assert_only(found, unsent=2)
    assert found.rolled_back == 1


def test_an_effect_that_is_committed_twice_is_doubled_and_so_is_one_whose_message_is_not_done() -> None:
    assert_only(of(transaction(A), [row(A)], [A, A]), doubled=1)
    assert_only(of(transaction(A), [row(A, stage=Stage.UNCLAIMED)], [A]), doubled=1, hung=1)
    assert_only(of(transaction(A), [row(A), row(A)], [A]), doubled=1)


def test_a_message_that_is_done_has_its_effect() -> None:
    assert_only(of(transaction(A), [row(A)], []), without_effect=1)


def test_effects_of_one_sender_to_one_group_come_in_their_order() -> None:
    rows = [row(A), row(B), row(C)]
    assert_only(of(transaction(A, B, C), rows, [A, B, C]))
    assert_only(of(transaction(A, B, C), rows, [B, A, C]), out_of_order=1)
    limited = [row(each, queue="limited") for each in (A, B, C)]
    assert_only(of(transaction(A, B, C), limited, [B, A, C]))


def test_more_of_a_group_at_once_than_its_limit_is_wrong_and_who_lost_the_claim_does_not_count() -> None:
    sent, rows, effects = transaction(A, B), [row(A), row(B)], [A, B]
    assert_only(of([*sent, begun(A), begun(B)], rows, effects), over_limit=1)
    frozen = [begun(A), begun(A, reads=2), ended(A, reads=2), begun(B), ended(A), ended(B)]
    found = of([*sent, *frozen], rows, effects)
    assert_only(found)
    assert found.cut_off == 0
    limited = [row(each, queue="limited") for each in (A, B)]
    assert_only(of([*sent, begun(A, queue="limited"), begun(B, queue="limited")], limited, effects))


def test_deliveries_whose_handler_never_ended_are_counted() -> None:
    found = of([*transaction(A), begun(A), begun(A, reads=2), ended(A, reads=2)], [row(A)], [A])
    assert_only(found)
    assert (found.deliveries, found.cut_off) == (2, 1)
