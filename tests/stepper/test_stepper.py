"""The stepper itself: it plays every order within its bounds, finds the one that breaks, and plays that one again."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from django.db import connection, transaction

from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import session_of
from tests.factories import held, waiting
from tests.stepper import exploring
from tests.stepper.exploring import OrderFailed, explore
from tests.stepper.order import Move, parse, written
from tests.stepper.scene import Ended, Scene

pytestmark = pytest.mark.django_db(transaction=True)
HAS_LOCKS = connection.vendor != "sqlite"


def crashes_of(message: Message, *, lock: bool = False) -> int:
    rows = Message.objects.filter(pk=message.pk)
    return (rows.select_for_update() if lock else rows).values_list("crashes", flat=True).get()


def count_on(message: Message) -> None:
    """Read, and write: two statements."""
    Message.objects.filter(pk=message.pk).update(crashes=crashes_of(message) + 1)


def count_on_under_lock(message: Message) -> None:
    with transaction.atomic():
        Message.objects.filter(pk=message.pk).update(crashes=crashes_of(message, lock=True) + 1)


def two_who_count(count: Callable[[Message], None]) -> Callable[[], Scene]:
    def world() -> Scene:
        message = waiting()

        def check(ended: Ended) -> str:
            assert crashes_of(message) == 2
            return "both counted"

        return Scene({"ann": lambda: count(message), "bob": lambda: count(message)}, check)

    return world


def test_a_lost_update_is_found_and_the_order_that_is_printed_shows_it_again() -> None:
    with pytest.raises(OrderFailed) as found:
        explore(two_who_count(count_on), preemptions=1)
    text = str(found.value)
    order = text.partition("--order='")[2].partition("'")[0]
    assert order == "ann bob*2 ann"
    assert "UPDATE" in text
    with pytest.raises(OrderFailed, match="crashes"):
        explore(two_who_count(count_on), order=order)
    assert explore(two_who_count(count_on), order="ann*2 bob*2").orders == 1


def test_without_preemptions_it_is_not_found_since_only_whole_actors_follow_each_other() -> None:
    assert explore(two_who_count(count_on), preemptions=0).orders == 2


def test_where_a_lock_closes_the_window_no_order_breaks_and_the_second_waits() -> None:
    explored = explore(two_who_count(count_on_under_lock), preemptions=4)
    assert explored.seen == {"both counted": explored.orders}
    assert (explored.waits > 0) is HAS_LOCKS
    assert explored.strayed == 0


@pytest.mark.parametrize("number", [1, 2, 3])
def test_without_a_bound_that_counts_every_order_is_played_once(number: int) -> None:
    """Two who send n statements each, which never wait, have (2n over n) orders."""
    played = []

    def world() -> Scene:
        message, names = waiting(), list[str]()
        played.append(names)

        def read(name: str) -> Callable[[], None]:
            def steps() -> None:
                for _ in range(number):
                    crashes_of(message)
                    names.append(name)

            return steps

        return Scene({"ann": read("ann"), "bob": read("bob")}, lambda _: "read")

    assert explore(world, preemptions=2 * number).orders == math.comb(2 * number, number)
    assert len({tuple(names) for names in played}) == len(played)


@pytest.mark.parametrize("bound", [0, 1, 2, 3])
def test_with_a_bound_every_order_of_at_most_so_many_preemptions_is_played(bound: int) -> None:
    """Of the orders of aaaa and bbbb, those that leave somebody who could have gone on at most ``bound`` times."""

    def world() -> Scene:
        message = waiting()

        def read() -> None:
            for _ in range(4):
                crashes_of(message)

        return Scene({"ann": read, "bob": read}, lambda _: "read")

    # with k preemptions the first one's steps are cut into parts, and so are the other's
    expected = sum(2 * math.comb(3, math.ceil(k / 2)) * math.comb(3, k // 2) for k in range(bound + 1))
    assert explore(world, preemptions=bound).orders == expected


def test_two_who_lock_in_opposite_orders_both_get_through_and_the_victim_is_retried() -> None:
    def world() -> Scene:
        rows = [waiting(), waiting()]
        session = session_of("default")

        def touch(*messages: Message) -> Callable[[], None]:
            def both() -> None:
                with session.transaction():
                    for message in messages:
                        Message.objects.filter(pk=message.pk).update(crashes=1)

            return lambda: session.outermost(both)

        return Scene({"ann": touch(*rows), "bob": touch(*reversed(rows))}, lambda _: "both")

    explored = explore(world)
    assert (explored.retries > 0) is (explored.waits > 0) is HAS_LOCKS
    assert explored.seen == {"both": explored.orders}


def test_who_dies_in_a_transaction_leaves_nothing_and_the_other_goes_on() -> None:
    def world() -> Scene:
        message = waiting()

        def count_two(*, who: int) -> None:
            with transaction.atomic():
                Message.objects.filter(pk=message.pk).update(crashes=1)
                Message.objects.filter(pk=message.pk).update(worker_id=who, crashes=2)

        def check(ended: Ended) -> str:
            stored = Message.objects.get(pk=message.pk)
            dead = [name for name in ("ann", "bob") if ended.was_killed(name)]
            if stored.crashes == 0:
                assert dead == ["ann", "bob"]
                return "neither"
            assert stored.crashes == 2
            assert len(dead) < 2
            assert stored.worker_id == {"ann": 2, "bob": 1}.get(next(iter(dead), ""), stored.worker_id)
            return f"{len(dead)} dead"

        return Scene({"ann": lambda: count_two(who=1), "bob": lambda: count_two(who=2)}, check)

    assert set(explore(world, preemptions=1, deaths=2).seen) == {"0 dead", "1 dead", "neither"}


def test_what_an_actor_raises_fails_the_order_unless_the_scene_allows_it() -> None:
    def world(*allowed: type[Exception]) -> Scene:
        def fail() -> None:
            raise KeyError("lost")

        return Scene({"ann": fail}, lambda ended: type(ended["ann"]).__name__, allowed)

    with pytest.raises(OrderFailed, match="ann raised KeyError"):
        explore(world)
    assert explore(lambda: world(KeyError)).seen == {"KeyError": 1}


def test_an_order_that_asks_for_what_cannot_be_shows_who_is_where() -> None:
    with pytest.raises(OrderFailed, match=r"asks for 'eve' as step 2, .*bob has stopped before: SELECT"):
        explore(two_who_count(count_on), order="ann eve")


def test_an_order_without_an_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring, "STEPS", 5)

    def world() -> Scene:
        message = waiting()

        def for_ever() -> None:
            while True:
                crashes_of(message)

        return Scene({"ann": for_ever}, lambda _: "never")

    with pytest.raises(OrderFailed, match="did not end within 5 steps"):
        explore(world)


def test_what_travels_together_is_one_step_if_that_is_requested() -> None:
    def world() -> Scene:
        waiting()
        return Scene({"ann": lambda: Message.objects.claim(1, queue="tests")}, lambda ended: str(len(ended["ann"])))

    apart, together = explore(world), explore(world, together=True)
    assert apart.seen == together.seen == {"1": 1}
    assert apart.steps >= together.steps


def test_each_order_begins_in_empty_tables() -> None:
    held(key="left over")

    def world() -> Scene:
        assert not Message.objects.exists()
        return Scene({"ann": waiting}, lambda _: "sent")

    assert explore(world).seen == {"sent": 1}


@pytest.mark.parametrize("text", ["", "ann", "ann*3 bob ann:dies bob*12"])
def test_an_order_is_read_as_it_is_written(text: str) -> None:
    assert written(parse(text)) == text


def test_what_is_no_order_is_refused() -> None:
    assert parse("ann*2 bob:dies") == (Move("ann"), Move("ann"), Move("bob", dies=True))
    with pytest.raises(ValueError, match=r"'ann\*x' is not a move"):
        parse("ann*x")
