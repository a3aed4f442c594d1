"""What groups cost: drains of as many messages, without groups, of many groups, and of a single one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from benchmarks.queue.bench import QUEUE
from benchmarks.queue.draining import UNIT, by_worker
from benchmarks.race import Contest, Contestant, Target
from django_dbqueue import Envelope
from django_dbqueue.models import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.queue.bench import Bench

OF_EACH: Final = 10
"""Messages of each group."""
IN_A_ROW: Final = 50


def grouping(bench: Bench) -> list[Contest]:
    """Many groups, whose messages came by turns or each group's at once; and one, with and without runs."""
    rows, hot = bench.sizes.drain, bench.sizes.drain_one
    groups = rows // OF_EACH
    by_turns, at_once = f"{groups:,} groups, by turns", f"{groups:,} groups, each at once"
    many = [
        by_worker(bench, "no groups", rows, 1),
        _grouped(bench, by_turns, rows, lambda n: n % groups),
        _grouped(bench, at_once, rows, lambda n: n // OF_EACH),
    ]
    one, in_a_row = "one group", f"one group, group_batch={IN_A_ROW}"
    single = [
        _grouped(bench, one, hot, lambda _: 0),
        _grouped(bench, in_a_row, hot, lambda _: 0, group_batch=IN_A_ROW),
    ]
    return [
        Contest("drain groups", many, [Target(by_turns, "no groups", 0.5), Target(at_once, by_turns, 0.9)], UNIT),
        Contest("drain one group", single, [Target(in_a_row, one, 5)], UNIT),
    ]


def _grouped(bench: Bench, name: str, rows: int, group_of: Callable[[int], int], *, group_batch: int = 1) -> Contestant:
    def prepare() -> None:
        bench.empty()
        envelopes = [Envelope({"n": n, "padding": "x" * 60}, group=str(group_of(n))) for n in range(rows)]
        Message.objects.enqueue_many(envelopes, queue=QUEUE)
        bench.analyze()

    return replace(by_worker(bench, name, rows, 1, group_batch=group_batch), prepare=prepare)
