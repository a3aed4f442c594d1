"""Fair share: starts are shared in proportion to limits, and a quiet group waits for no other's backlog (P19)."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue import Envelope
from django_dbqueue.models import Group, Message
from tests.factories import QUEUE, claim_one

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)
LIMITS = {"bronze": 4, "silver": 8, "gold": 16}
THREADS = 4
STARTS = 1_000


@pytest.fixture(autouse=True)
def _backlog(settings: SettingsWrapper) -> None:
    """All three have more to do than is started here; what was sent first would win by its age."""
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group_limit": LIMITS["bronze"]}}}
    for group in ("silver", "gold"):
        Group.objects.limit(QUEUE, group, LIMITS[group])
    for group, number in (("bronze", 200), ("silver", 350), ("gold", 650)):
        report = Message.objects.enqueue_many([Envelope(each, group=group) for each in range(number)], queue=QUEUE)
        assert report.created == number


def start(number: int) -> list[str]:
    """Let a few threads start that many, each of which takes one, two or three ticks; return their groups."""
    chance = random.Random(17)
    order: list[str] = []
    ends: dict[int, list[Message]] = defaultdict(list)
    free, tick = THREADS, 0
    while len(order) < number:
        if ended := ends.pop(tick, []):
            Message.objects.ack(ended)
        free += len(ended)
        begun: list[Any] = Message.objects.claim(free, queue=QUEUE) if free else []
        for message in begun:
            order.append(message.group)
            ends[tick + chance.randint(1, 3)].append(message)
        free, tick = free - len(begun), tick + 1
    return order[:number]


def test_of_a_thousand_starts_each_group_has_its_share_within_a_twentieth() -> None:
    shares = Counter(start(STARTS))
    wanted = {group: STARTS * limit / sum(LIMITS.values()) for group, limit in LIMITS.items()}
    assert {group: shares[group] for group in LIMITS} == {
        group: pytest.approx(share, rel=0.05) for group, share in wanted.items()
    }
    assert all(Group.objects.order(QUEUE, group, limit=1) for group in LIMITS), "one had no more to do"


def test_a_quiet_group_waits_for_the_tickets_of_busy_ones_and_not_for_their_backlogs() -> None:
    start(100)
    Message.objects.enqueue(0, queue=QUEUE, group="quiet")
    before = 0
    while (message := claim_one(QUEUE)).group != "quiet":
        before += 1
        message.ack()
    assert before <= sum(LIMITS.values())
