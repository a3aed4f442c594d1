"""Archivers beside each other, beside settlements and operators: each message is in one place (P3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_dbqueue.lifecycle.archive import purge
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.sessions.django_session import session_of
from tests.factories import QUEUE, dead, done, held
from tests.stepper.contenders import places
from tests.stepper.exploring import Explored
from tests.stepper.scene import Ended, Scene


def archive() -> int:
    return Message.objects.archive(QUEUE, older_than=0)


def make_mutex() -> None:
    """The first archiver makes the mutex; later ones find it."""
    done(queue="before")
    Message.objects.archive("before", older_than=0)


def test_an_archive_during_an_ack_leaves_each_message_in_one_place_and_does_not_wait(
    explore: Callable[..., Explored],
) -> None:
    def world() -> Scene:
        make_mutex()
        message, finished = held(), done()

        def check(ended: Ended) -> str:
            assert places(finished.pk) == ["history"]
            [place] = places(message.pk)
            assert ended["archiver"] == (2 if place == "history" else 1)
            assert place in {"y", "history"}
            assert "archiver" not in ended.waited  # the ack may: MariaDB's archive locks the entry behind its range
            return place

        return Scene({"holder": message.ack, "archiver": archive}, check)

    assert set(explore(world).seen) == {"y", "history"}


@pytest.mark.parametrize("deaths", [0, 1], ids=["both live", "one dies"])
def test_of_a_purge_and_a_requeue_of_a_dead_message_one_has_it_and_it_is_in_one_place(
    explore: Callable[..., Explored], deaths: int
) -> None:
    def world() -> Scene:
        make_mutex()
        message, other = dead(), dead()  # InnoDB keeps the lock on a row that is read alone, whether it matches or not

        def check(ended: Ended) -> str:
            [place] = places(message.pk)
            is_requeued = place == "n" and Message.objects.ready(QUEUE).exists()
            if not ended.was_killed("operator"):
                assert ended["operator"] == int(is_requeued)
            if not ended.was_killed("archiver"):
                assert ended["archiver"] == 1 + int(place == "history")
            if ended.was_killed("operator") or ended.was_killed("archiver"):
                return "killed"
            assert is_requeued or place == "history"
            return place

        actors = {
            "operator": lambda: int(Message.objects.filter(pk=message.pk).requeue()),
            "archiver": lambda: purge(session_of("default"), [message.pk, other.pk]),
        }
        return Scene(actors, check)

    explored = explore(world, preemptions=2 - deaths, deaths=deaths)
    assert set(explored.seen) == {"n", "history"} | ({"killed"} if deaths else set())


@pytest.mark.parametrize("is_first", [True, False], ids=["the first ever", "not the first"])
def test_two_archivers_move_each_message_once(explore: Callable[..., Explored], is_first: bool) -> None:
    def world() -> Scene:
        if not is_first:
            make_mutex()
        both = [done(), done()]

        def check(ended: Ended) -> str:
            assert ended["ann"] + ended["bob"] == 2
            assert [places(message.pk) for message in both] == [["history"], ["history"]]
            return f"{ended['ann']} and {ended['bob']}"

        return Scene({"ann": archive, "bob": archive}, check)

    assert set(explore(world, preemptions=1).seen) == {"2 and 0", "0 and 2"}


def test_who_follows_the_ids_of_the_history_misses_no_row_of_two_archivers(explore: Callable[..., Explored]) -> None:
    """It reads behind the highest id that it has seen, as Spark's readers do; an id that is committed later than a
    higher one would never be read."""

    def world() -> Scene:
        make_mutex()
        start = ArchivedMessage.objects.latest("pk").pk
        first, second = done(), done()
        seen: list[int] = [start]

        def read() -> None:
            seen.extend(ArchivedMessage.objects.filter(pk__gt=seen[-1]).order_by("pk").values_list("pk", flat=True))

        def check(ended: Ended) -> str:
            halfway = len(seen) - 1
            read()
            assert seen[1:] == list(
                ArchivedMessage.objects.filter(pk__gt=start).order_by("pk").values_list("pk", flat=True)
            )
            assert len(seen) == 3
            return f"{halfway} seen"

        session = session_of("default")
        actors = {
            "ann": lambda: purge(session, [first.pk]),
            "bob": lambda: purge(session, [second.pk]),
            "reader": read,
        }
        return Scene(actors, check)

    assert set(explore(world, preemptions=1).seen) == {"0 seen", "1 seen", "2 seen"}
