"""A claim whose reply comes after the check for what was cancelled has that check repeated (P24)."""

from __future__ import annotations

import pytest

from django_dbqueue.lifecycle.claimer import Claimer
from tests.factories import waiting
from tests.worker.clock import Clock, Turns

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("seconds", [-30.0, 30.0], ids=["checked before it began", "checked while it was on its way"])
def test_what_a_claim_brings_is_late_if_all_was_checked_after_it_began(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    clock = Clock(monkeypatch)
    turns, take = Turns(clock), Claimer.take

    def take_long(*args: object, **options: object) -> object:
        claimed = take(*args, **options)  # type: ignore[arg-type]
        turns.holding.checked_at = clock.now + seconds
        clock.now += 60.0
        return claimed

    monkeypatch.setattr(Claimer, "take", take_long)
    waiting()
    turns.feed()
    assert len(turns.holding) == 1
    assert turns.holding.has_late is (seconds > 0)
