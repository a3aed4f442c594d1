"""Which groups there are, in the order in which they need attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue.insight import groups
from django_dbqueue.insight.groups import find_groups, groups_named, overview_of, overviews
from django_dbqueue.models import Group, Message
from django_dbqueue.sessions.django_session import session_of
from tests.factories import QUEUE, claim_one, let_pass

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db


def send(group: str, *, queue: str = QUEUE, **options: Any) -> Message:
    return Message.objects.enqueue(1, queue=queue, group=group, **options)


def found(*, queue: str | None = None, limit: int = 100) -> list[tuple[str, str]]:
    return [(each.queue, each.name) for each in find_groups(session_of("default"), queue=queue, limit=limit).found]


def test_paused_and_held_ones_come_first_then_those_who_wait_longest(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {"ledger": {"on_dead": "hold"}}}
    send("running alone", queue="other")
    for name in ("young", "old"):
        send(name)
        let_pass(send(name), 60 if name == "old" else 1)
    send("held", queue="ledger")
    held = claim_one("ledger")
    held.reject("unwanted")
    let_pass(held, 5)
    Group.objects.pause("empty", "paused")
    Group.objects.limit("empty", "limited", 3)
    Group.objects.resume("empty", "of no interest")
    assert found() == [
        ("ledger", "held"), ("empty", "paused"), (QUEUE, "old"), (QUEUE, "young"), ("other", "running alone"),
        ("empty", "limited"),
    ]  # fmt: skip
    assert found(queue="empty") == [("empty", "paused"), ("empty", "limited")]
    assert found(queue="ledger") == [("ledger", "held")]
    assert found(queue="none") == []


def test_a_group_with_a_rate_of_its_own_is_found_and_shows_it(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group_rate": "5/s"}}}
    Group.objects.rate(QUEUE, "paced", "10/m")
    Group.objects.rate(QUEUE, "of no interest", None)
    assert found() == found(queue=QUEUE) == [(QUEUE, "paced")]
    session = session_of("default")
    [seen] = overviews(session, find_groups(session, limit=9).found, cap=2)
    assert seen.rate == "10/m"
    others = [Group(lane=lane, queue=queue, name="nobody") for lane, queue in ((7, QUEUE), (8, "unpaced"))]
    assert [overview_of(session, group, cap=2).rate for group in others] == ["5/s", None]


def test_a_rate_of_its_own_is_found_among_many_groups_that_have_rows(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group_rate": "5/s"}, "other": {}}}
    for number in range(9):
        Group.objects.limit(QUEUE, f"g{number}", None)  # a row for the times of its rate, and nothing of its own
    paced = max((Group.objects.get(name=f"g{number}") for number in range(9)), key=lambda group: group.lane).name
    Group.objects.rate(QUEUE, paced, "10/m")
    Group.objects.rate("other", "paced", "10/m")
    assert found(queue=QUEUE, limit=2) == [(QUEUE, paced)]
    assert sorted(found(limit=2)) == sorted([(QUEUE, paced), ("other", "paced")])


def test_what_runs_and_waits_is_counted_to_a_cap() -> None:
    messages = [send("a") for _ in range(5)]
    Group.objects.limit(QUEUE, "a", 2)
    [seen] = overviews(session_of("default"), find_groups(session_of("default"), limit=9).found, cap=2)
    assert (str(seen.waiting), seen.out, seen.out.more, seen.limit, seen.held_by) == ("2+", 2, False, 2, None)
    assert seen.oldest == Message.objects.get(pk=messages[2].pk).created_at
    idle = overview_of(session_of("default"), Group(lane=7, queue=QUEUE, name="nobody"), cap=2)
    assert (idle.waiting, idle.out, idle.oldest, idle.limit) == (0, 0, None, 1)


def test_lanes_are_walked_step_by_step_and_no_further_than_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "STEP", 3)
    names = {f"g{number}" for number in range(11)}
    for name in [*names, *names]:
        send(name)
    assert {name for _, name in found()} == {name for _, name in found(queue=QUEUE)} == names
    search = find_groups(session_of("default"), limit=4)
    assert search.is_cut
    assert len(search.found) == 5
    assert not find_groups(session_of("default"), limit=11).is_cut


def test_a_group_is_found_by_its_whole_name_in_each_queue_that_has_it() -> None:
    send("a"), send("a", queue="other"), send("ab")
    Group.objects.limit("third", "a", 2)
    session = session_of("default")
    assert [each.queue for each in groups_named(session, "a", [QUEUE, "other", "third", "none"])] == [
        *(QUEUE, "other", "third")
    ]
    assert groups_named(session, "b", [QUEUE]) == []
