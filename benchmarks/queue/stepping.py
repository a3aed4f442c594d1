"""Steps of one message, beside what a handler that writes the same rows by hand needs; and their replay."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from django.db import transaction

from benchmarks.queue.bench import QUEUE
from benchmarks.race import Contest, Contestant, Target
from django_dbqueue.models import Message, Queue, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.queue.bench import Bench

BY_HAND: Final = "an INSERT in a transaction"
TWO_BY_HAND: Final = "two INSERTs in a transaction"
FUNCTION: Final = "step(name, function)"
BLOCK: Final = "with step(name), and an INSERT in it"
REPLAYED: Final = 1_000
LEASE: Final = 3_600.0


def stepping(bench: Bench) -> list[Contest]:
    """What a step costs, and what it costs to find a thousand done."""
    return [_writing(bench), _replay(bench)]


def _writing(bench: Bench) -> Contest:
    steps = bench.sizes.one_by_one // 4
    numbers = itertools.count()

    def insert() -> None:
        Queue.objects.create(name=f"q-{next(numbers)}")

    def by_hand(inserts: int) -> Callable[[], None]:
        def run() -> None:
            for _ in range(steps):
                with transaction.atomic():
                    for _ in range(inserts):
                        insert()

        return run

    def functions() -> None:
        message = held[0]
        for number in range(steps):
            message.step(f"step {number}", int)

    def blocks() -> None:
        message = held[0]
        for number in range(steps):
            with message.step(f"step {number}") as step:
                insert()
                step.result = number

    held: list[Message] = []

    def prepare() -> None:
        bench.empty()
        held[:] = [_held()]

    checked = partial(_checked, bench)
    contestants = [
        Contestant(BY_HAND, steps, by_hand(1), prepare, checked(0, steps)),
        Contestant(TWO_BY_HAND, steps, by_hand(2), prepare, checked(0, 2 * steps)),
        Contestant(FUNCTION, steps, functions, prepare, checked(steps, 0)),
        Contestant(BLOCK, steps, blocks, prepare, checked(steps, steps)),
    ]
    targets = [Target(FUNCTION, BY_HAND, at_least=1 / 1.3), Target(BLOCK, TWO_BY_HAND, at_least=1 / 1.3)]
    return Contest("steps", contestants, targets, unit="steps/s")


def _checked(bench: Bench, steps: int, rows: int) -> Callable[[], None]:
    def check() -> None:
        bench.expect(Step.objects.count(), steps, "steps that are remembered")
        bench.expect(Queue.objects.count(), rows, "rows that were written")

    return check


def _replay(bench: Bench) -> Contest:
    held: list[Message] = []

    def prepare() -> None:
        bench.empty()
        held[:] = [_held()]
        for number in range(REPLAYED):
            held[0].step(f"step {number}", int)
        held[0].nack(delay=0)
        [held[0]] = Message.objects.claim(1, queue=QUEUE, lease=LEASE)

    def run() -> None:
        for number in range(REPLAYED):
            held[0].step(f"step {number}", _not_again)

    return Contest("steps, replay", [Contestant("1,000 steps", REPLAYED, run, prepare)], unit="steps/s")


def _held() -> Message:
    Message.objects.enqueue({}, queue=QUEUE)
    [message] = Message.objects.claim(1, queue=QUEUE, lease=LEASE)
    return message


def _not_again() -> Any:
    raise AssertionError("a step ran that was done")
