"""What had returned a result when its child died, before the ack: only that child had it, so it runs again (P17)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue import Envelope, signals
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.worker.aftermath import settle_after
from django_dbqueue.worker.board import Board, SlotState
from tests.factories import QUEUE, claim_one, held, row

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

Counts = tuple[str, int, int]


def died(*deliveries: tuple[Message, SlotState], cut_off: bool = False) -> Board:
    """Settle what a child held, whose handlers had come this far."""
    board = Board(10)
    for message, state in deliveries:
        slot = board.occupy(message.claim)
        if state != SlotState.STARTED:
            board.stop_clock(slot, succeeded=True, has_result=state == SlotState.RETURNED)
    settle_after(DjangoSession("default"), 7, {QUEUE: Consumer(QUEUE, print)}, board, how="SIGKILL", cut_off=cut_off)
    return board


def counts(message: Message) -> Counts:
    stored = row(message)
    return stored["status"], stored["read_count"], stored["crashes"]


@pytest.fixture
def rescued() -> Iterator[list[tuple[list[int], str]]]:
    heard: list[tuple[list[int], str]] = []

    def note(message_ids: list[int], evidence: str, **_: Any) -> None:
        heard.append((message_ids, evidence))

    signals.message_rescued.connect(note)
    yield heard
    signals.message_rescued.disconnect(note)


def test_it_comes_again_uncharged_and_alone(rescued: list[tuple[list[int], str]]) -> None:
    """Whether it has killed its child, or a neighbour has, nobody knows."""
    returned, returned_none, started = held(), held(), held()
    board = died(
        (returned, SlotState.RETURNED), (returned_none, SlotState.SUCCEEDED), (started, SlotState.STARTED)
    )  # fmt: skip
    assert [counts(each) for each in (returned, returned_none, started)] == [("n", 0, 1), ("y", 1, 0), ("n", 1, 1)]
    assert board.counter("done") == 1
    assert [ids for ids, _ in rescued] == [[started.pk], [returned.pk]]
    assert "before what it had returned was kept" in rescued[1][1]


def test_one_that_kills_each_child_after_its_return_is_charged_from_the_second_time_on_and_dies() -> None:
    """Nothing that kills its process is delivered for ever (P7)."""
    message = held(max_reads=2)
    seen = []
    for _ in range(10):
        died((message, SlotState.RETURNED))
        seen.append(counts(message))
        if Message.objects.dead(QUEUE).exists():
            break
        message = claim_one()
    assert seen == [("n", 0, 1), ("n", 1, 2), ("n", 2, 3)]
    assert "WorkerDied" in (Message.objects.get().error or "")


def test_where_its_own_supervisor_ended_the_child_none_is_to_blame(rescued: list[tuple[list[int], str]]) -> None:
    message = held()
    died((message, SlotState.RETURNED), cut_off=True)
    assert counts(message) == ("n", 0, 0)
    assert rescued == []


def test_what_its_holder_had_acked_stays_done() -> None:
    message = held()
    message.ack()
    board = died((message, SlotState.RETURNED))
    assert counts(message) == ("y", 1, 0)
    assert board.counter("done") == 1


def test_those_of_its_group_that_ran_behind_it_run_again_behind_it(settings: SettingsWrapper) -> None:
    """They would otherwise be done, and it would run once more after them (P18)."""
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group_batch": 10}}}
    Message.objects.enqueue_many([Envelope(number, group="a") for number in range(4)], queue=QUEUE)
    other = Message.objects.enqueue("other", queue=QUEUE, group="b")
    claimer = Claimer(Message, session_of("default"), QUEUE, in_a_row=5, room=100)
    heads = {head.message.group: head for head in claimer.take(10, lease=60, max_reads=5)}
    first, second, third, fourth = [
        one.message for one in (heads["a"], *claimer.followers[heads["a"].claim.id])
    ]  # fmt: skip
    succeeded = SlotState.SUCCEEDED
    died(
        (first, succeeded), (second, SlotState.RETURNED), (third, succeeded), (fourth, SlotState.STARTED),
        (heads["b"].message, succeeded),
    )  # fmt: skip
    assert [counts(each) for each in (first, second, third, fourth)] == [
        ("y", 1, 0), ("n", 0, 1), ("n", 0, 0), ("n", 1, 1),
    ]  # fmt: skip
    assert counts(other) == ("y", 1, 0)
    order = []
    while messages := Message.objects.claim(5, queue=QUEUE):
        order += [message.pk for message in messages]
        Message.objects.ack(messages)
    assert order == [second.pk, third.pk, fourth.pk]
