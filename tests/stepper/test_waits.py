"""A handler that waits for an event beside a sender who gives its message new content (P3, P21)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_dbqueue import LeaseLost, Suspended
from django_dbqueue.models import Message, Step, Waiter
from tests.factories import claim_one, row, waiting
from tests.stepper.exploring import Explored
from tests.stepper.lanes import PARKED
from tests.stepper.scene import Ended, Scene


@pytest.mark.parametrize("group", [None, "a"])
def test_new_content_that_is_due_later_does_not_wait_for_the_event_of_the_old_one(
    explore: Callable[..., Explored], group: str | None
) -> None:
    def world() -> Scene:
        waiting(payload=1, key="k", group=group)
        message = claim_one()

        def check(ended: Ended) -> str:
            assert ended["sender"].outcome == "updated"
            stored = row(message)
            assert stored["status"] == "n"
            assert stored["available_at"] < PARKED, "it waits for ever, and for nothing"
            assert not Step.objects.exists()
            assert not Waiter.objects.exists()
            return "had waited" if ended.raised("handler", Suspended) else "lost"

        def send() -> Message:
            return waiting(payload=2, key="k", group=group, delay=3_600, on_conflict="update")

        return Scene({"handler": lambda: message.wait_for("paid"), "sender": send}, check, (Suspended, LeaseLost))

    assert set(explore(world, preemptions=1).seen) == {"had waited", "lost"}
