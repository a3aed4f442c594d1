"""Claims beside claims, rescues, and acks in the claim's own transaction (P3, P4, P6, P7)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import pytest
from django.conf import settings

from django_dbqueue import LeaseLost
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.lifecycle.settle_many import settling_all
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import Prelude, session_of
from django_dbqueue.statements import moves_sql
from tests.factories import QUEUE, claimed, let_end, row, stuck, waiting
from tests.stepper.contenders import claim, places
from tests.stepper.exploring import Explored
from tests.stepper.scene import Ended, Scene

IS_MARIADB = settings.TEST_DATABASE == "mariadb"


def assert_holds(message: Message, *, reads: int = 1) -> None:
    stored = row(message)
    assert (stored["status"], stored["claim_token"], stored["read_count"]) == ("run", message.held_token, reads)


def test_of_two_claims_of_the_same_rows_each_row_has_one_winner_and_neither_claim_waits(
    explore: Callable[..., Explored],
) -> None:
    def world() -> Scene:
        both = [waiting(), waiting()]

        def check(ended: Ended) -> str:
            assert sorted(each.pk for each in ended["ann"] + ended["bob"]) == [each.pk for each in both]
            for message in ended["ann"] + ended["bob"]:
                assert_holds(message)
            assert not ended.waited
            return f"{len(ended['ann'])} and {len(ended['bob'])}"

        return Scene({"ann": lambda: claim(2), "bob": lambda: claim(2)}, check)

    assert set(explore(world).seen) == {"2 and 0", "0 and 2"}


def test_what_a_worker_held_when_it_died_comes_again_once_and_charged_if_its_claim_was_committed(
    explore: Callable[..., Explored],
) -> None:
    def world() -> Scene:
        both = [waiting(payload=1), waiting(payload=2)]

        def work() -> list[Message]:
            messages = claim(2)
            assert Message.objects.ack(messages) == []
            return messages

        def check(ended: Ended) -> str:
            living = [ended[name] for name in ("ann", "bob") if not ended.was_killed(name)]
            for message in itertools.chain(*living):
                assert (row(message)["status"], row(message)["read_count"]) == ("y", 1)
            left = [message for message in both if row(message)["status"] != "y"]
            held = Message.objects.filter(status="run")
            was_held = held.exists()
            assert held.count() in {0, len(left)}
            assert len(living) < 2 or not left
            Message.objects.extend(_as_held(held), 0)
            assert Message.objects.rescue(QUEUE) == (len(left) if was_held else 0)
            assert claimed() == [message.payload for message in left]
            assert {row(message)["read_count"] for message in left} <= {2 if was_held else 1}
            return "all done" if not left else "held by the dead" if was_held else "held by nobody"

        return Scene({"ann": work, "bob": work}, check)

    explored = explore(world, preemptions=1, deaths=1)
    assert set(explored.seen) - {"held by nobody"} == {"all done", "held by the dead"}


def _as_held(messages: Iterable[Message]) -> list[Message]:
    """As their holder had them."""
    found = list(messages)
    for message in found:
        message.held_token = message.claim_token
    return found


def test_of_two_claims_that_come_back_short_and_rescue_one_gets_the_expired_message(
    explore: Callable[..., Explored],
) -> None:
    def world() -> Scene:
        message = stuck()

        def check(ended: Ended) -> str:
            [winner] = ended["ann"] + ended["bob"]
            assert_holds(winner, reads=2)
            assert row(message)["crashes"] == 1
            with pytest.raises(LeaseLost):
                message.ack()
            assert not ended.waited
            return "ann" if ended["ann"] else "bob"

        take = lambda: Message.objects.claim(1, queue=QUEUE)  # noqa: E731
        return Scene({"ann": take, "bob": take}, check)

    assert set(explore(world, preemptions=1).seen) == {"ann", "bob"}


def test_of_an_ack_and_a_claim_that_rescues_one_has_the_message(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        message = stuck()

        def check(ended: Ended) -> str:
            if ended.raised("holder", LeaseLost):
                [again] = ended["next"]
                assert_holds(again, reads=2)
                return "delivered again"
            assert ended["next"] == []
            assert (row(message)["status"], row(message)["read_count"]) == ("y", 1)
            return "acked"

        actors = {"holder": message.ack, "next": lambda: Message.objects.claim(1, queue=QUEUE)}
        return Scene(actors, check, (LeaseLost,))

    assert set(explore(world).seen) == {"delivered again", "acked"}


class Acks:
    """A worker's acks, in the transaction of its next claim; done alone if some of them are lost."""

    def __init__(self, *messages: Message) -> None:
        self._messages = messages
        self.is_committed = False
        self.lost: list[Message] = []

    def send(self) -> Prelude | None:
        session = session_of("default")
        claims = [message.claim for message in self._messages]
        return settling_all(session, moves_sql.ack(session.server), claims, {}, None)

    def committed(self) -> None:
        self.is_committed = True

    def undone(self) -> None:
        pass

    def refused(self) -> None:
        self.lost = Message.objects.ack(self._messages)


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "in one round trip"])
def test_acks_that_share_a_claims_commit_are_done_with_it_or_reported_as_lost_during_a_rescue(
    explore: Callable[..., Explored], together: bool
) -> None:
    def world() -> Scene:
        expired, other, due = stuck(), stuck(), waiting()
        let_end(other)
        acks = Acks(expired, other)
        claimer = Claimer(Message, session_of("default"), QUEUE)

        def work() -> list[int]:
            return [each.claim.id for each in claimer.take(1, lease=60, max_reads=5, partner=acks)]

        def check(ended: Ended) -> str:
            rescued = ended["rescuer"]
            # MariaDB's rescue also locks the entry behind its range, the first waiting one, and the claim passes it by
            assert len(ended["worker"]) == 1 or IS_MARIADB
            assert rescued == len(acks.lost)
            assert acks.is_committed is not bool(rescued)
            for message in (expired, other):
                is_lost = message in acks.lost
                assert row(message)["crashes"] == int(is_lost)
                assert (row(message)["status"] == "y") is not is_lost
            assert places(due.pk) == ["run" if due.pk in ended["worker"] else "n"]
            return "rescued" if rescued else "acked"

        return Scene({"worker": work, "rescuer": lambda: Message.objects.rescue(QUEUE)}, check)

    assert set(explore(world, together=together).seen) == {"acked", "rescued"}
