"""What a claim, a rescue and an ack cost beside what else is in the table, and while an old read view is held."""

from __future__ import annotations

import statistics
import time
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

from django.db import connections, transaction

from benchmarks.queue.bench import QUEUE
from benchmarks.queue.crowds import Crowd, Rows, crowds, standing
from benchmarks.race import Contest, Contestant, Target
from django_dbqueue.lifecycle.claim import Claimer
from django_dbqueue.lifecycle.rescue import BATCH, rescue
from django_dbqueue.lifecycle.settle import ack_claims
from django_dbqueue.lifecycle.statements import MAX_IDS
from django_dbqueue.models import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.queue.bench import Bench

BATCH_SIZE: Final = 100
LOOKS: Final = 11
"""A figure is the median of so many, each rolled back: the table stays as it is."""
SMALL: Final = "1k ready"
FEW_LEASES: Final = "1k leases expired"
MANY_LEASES: Final = "200k leases expired"
AT_MOST: Final = 1.5
LEASE: Final = 600.0


def beside_others(bench: Bench) -> Iterator[Contest]:
    """Claims of a hundred, rescues and acks in tables that stand side by side."""
    with standing(bench, crowds(20_000 if bench.quick else 1_000_000)) as aliases:
        yield _contest("claim of 100, from the beginning", aliases, _first_claim, list(aliases), SMALL)
        yield _contest("claim of 100, behind the mark", aliases, _next_claim, list(aliases), SMALL)
        yield _contest(f"ack of {MAX_IDS}", aliases, _ack, list(aliases), SMALL)
        yield _contest(f"rescue of {BATCH}", aliases, _rescue, [FEW_LEASES, MANY_LEASES], FEW_LEASES)


def _contest(
    name: str, aliases: dict[str, str], once: Callable[[str], float], tables: Sequence[str], small: str
) -> Contest:
    def measure(alias: str) -> float:
        return statistics.median(_rolled_back(once, alias) for _ in range(LOOKS))

    return Contest(
        name,
        [Contestant(table, measure=partial(measure, aliases[table])) for table in tables],
        [Target(table, small, at_most=AT_MOST) for table in tables if table != small],
        unit="ms",
    )


def _rolled_back(once: Callable[[str], float], alias: str) -> float:
    with transaction.atomic(using=alias):
        figure = once(alias)
        transaction.set_rollback(True, using=alias)
    return figure


def _first_claim(alias: str) -> float:
    return _claim(Claimer(Message, alias, QUEUE))


def _next_claim(alias: str) -> float:
    claimer = Claimer(Message, alias, QUEUE)
    _claim(claimer)
    figure = _claim(claimer)
    assert not claimer.saw_all
    return figure


def _claim(claimer: Claimer) -> float:
    began = time.perf_counter()
    messages = claimer.claim(BATCH_SIZE, lease=LEASE, max_reads=3)
    seconds = time.perf_counter() - began
    if len(messages) != BATCH_SIZE:
        raise AssertionError(f"claimed {len(messages)}, not {BATCH_SIZE}")
    return 1000 * seconds


def _ack(alias: str) -> float:
    messages = Claimer(Message, alias, QUEUE).claim(MAX_IDS, lease=LEASE, max_reads=3)
    claims = {message.claim: QUEUE for message in messages}
    began = time.perf_counter()
    acked = ack_claims(alias, claims)
    seconds = time.perf_counter() - began
    if len(acked) != MAX_IDS:
        raise AssertionError(f"acked {len(acked)}, not {MAX_IDS}")
    return 1000 * seconds


def _rescue(alias: str) -> float:
    began = time.perf_counter()
    rescued = rescue(Message, alias, [QUEUE], limit=BATCH)
    seconds = time.perf_counter() - began
    if rescued != BATCH:
        raise AssertionError(f"rescued {rescued}, not {BATCH}")
    return 1000 * seconds


QUIET: Final = "no other session"
OLD_VIEW: Final = "beside an old read view"
VIEW_AT_MOST: Final = 2.0


def beside_a_read_view(bench: Bench) -> Iterator[Contest]:
    """Claims after a churn of claims and acks, each in a transaction of its own, with looks from the beginning."""
    churn = 10_000 if bench.quick else 100_000
    seconds = 1.0 if bench.quick else 5.0

    def contestant(name: str, *, held: bool) -> Contestant:
        return Contestant(name, measure=partial(_churned, bench, churn, seconds, held=held))

    yield Contest(
        f"claim of 100 after a churn of {churn:,}",
        [contestant(QUIET, held=False), contestant(OLD_VIEW, held=True)],
        [Target(OLD_VIEW, QUIET, at_most=VIEW_AT_MOST)],
        unit="ms",
        rounds=3,
        warm_up=False,
    )


def _churned(bench: Bench, churn: int, seconds: float, *, held: bool) -> float:
    """The mean, not the median, of the claims that a worker makes in so many seconds: a look a second counts too."""
    with standing(bench, [Crowd("", [Rows(4 * churn, seconds="-60 + n * 0.00001")])]) as aliases:
        alias = aliases[""]
        claimer = Claimer(Message, alias, QUEUE)
        with _read_view(alias) if held else nullcontext():
            _work(claimer, churn // BATCH_SIZE, 600)
            return statistics.fmean(_work(claimer, 2 * churn // BATCH_SIZE, seconds))


def _work(claimer: Claimer, most: int, seconds: float) -> list[float]:
    """What the claims took, in ms, of a worker that does nothing but claim and ack."""
    figures = []
    end = time.perf_counter() + seconds
    while len(figures) < most and time.perf_counter() < end:
        began = time.perf_counter()
        messages = claimer.claim(BATCH_SIZE, lease=LEASE, max_reads=3)
        figures.append(1000 * (time.perf_counter() - began))
        assert len(messages) == BATCH_SIZE
        ack_claims(claimer.using, {message.claim: QUEUE for message in messages})
    return figures


@contextmanager
def _read_view(alias: str) -> Iterator[None]:
    """Another session that has begun to read, and goes on seeing the table as it was."""
    other = connections[alias].copy()
    begin = {
        "mysql": ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"],
        "postgresql": ["BEGIN ISOLATION LEVEL REPEATABLE READ"],
        "sqlite": ["BEGIN"],
    }
    with closing(other), other.cursor() as cursor:
        for statement in begin[other.vendor]:
            cursor.execute(statement)
        cursor.execute(f"SELECT id FROM {Message._meta.db_table} LIMIT 1")
        cursor.fetchall()
        yield
        cursor.execute("ROLLBACK")
