"""What a claim, a rescue and an ack cost beside what else is in the table, and while an old read view is held."""

from __future__ import annotations

import statistics
import time
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from django.db import connections, transaction

from benchmarks.queue.bench import QUEUE
from benchmarks.queue.crowds import READY, Crowd, Rows, crowds, filled
from benchmarks.race import Contest, Contestant, Target
from django_dbqueue.databases.statement import MAX_IDS
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.lifecycle.rescue import BATCH, rescue
from django_dbqueue.lifecycle.settle_many import ack_claims
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.queue.bench import Bench

BATCH_SIZE: Final = 100
TIMES: Final = 11
"""A figure is the median of so many, each rolled back: the table stays as it is."""
SMALL: Final = "1k ready"
FEW_LEASES: Final = "1k leases expired"
MANY_LEASES: Final = "200k leases expired"
AT_MOST: Final = 1.5
LEASE: Final = 600.0


def among_others(bench: Bench) -> Iterator[Contest]:
    """Claims of a hundred, rescues and acks in tables that stand side by side."""
    with filled(bench, crowds(20_000 if bench.quick else 1_000_000)) as aliases:
        yield _contest("claim", aliases, _first_claim, list(aliases), SMALL)
        yield _contest("claim, marked", aliases, _next_claim, list(aliases), SMALL)
        yield _contest("ack", aliases, _ack, list(aliases), SMALL)
        yield _contest("rescue", aliases, _rescue, [FEW_LEASES, MANY_LEASES], FEW_LEASES)


def _contest(
    name: str, aliases: dict[str, str], once: Callable[[str], float], tables: Sequence[str], small: str
) -> Contest:
    def measure(alias: str) -> float:
        return statistics.median(_rolled_back(once, alias) for _ in range(TIMES))

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
    return _claim(Claimer(Message, DjangoSession(alias), QUEUE))


def _next_claim(alias: str) -> float:
    claimer = Claimer(Message, DjangoSession(alias), QUEUE)
    _claim(claimer)
    figure = _claim(claimer)
    if claimer.low_water.saw_all:
        raise AssertionError("the second claim has looked from the beginning")
    return figure


def _claim(claimer: Claimer) -> float:
    figure, messages = _timed(claimer)
    if len(messages) != BATCH_SIZE:
        raise AssertionError(f"claimed {len(messages)}, not {BATCH_SIZE}")
    return figure


def _ack(alias: str) -> float:
    messages = Claimer(Message, DjangoSession(alias), QUEUE).claim(MAX_IDS, lease=LEASE, max_reads=3)
    claims = {message.claim: QUEUE for message in messages}
    began = time.perf_counter()
    acked = ack_claims(DjangoSession(alias), claims)
    seconds = time.perf_counter() - began
    if len(acked) != MAX_IDS:
        raise AssertionError(f"acked {len(acked)}, not {MAX_IDS}")
    return 1000 * seconds


def _rescue(alias: str) -> float:
    began = time.perf_counter()
    rescued = rescue(Message, DjangoSession(alias), [QUEUE], limit=BATCH)
    seconds = time.perf_counter() - began
    if rescued != BATCH:
        raise AssertionError(f"rescued {rescued}, not {BATCH}")
    return 1000 * seconds


QUIET: Final = "no other session"
BACKLOG: Final = "a backlog"
OLD_VIEW: Final = "beside an old read view"
VIEW_AT_MOST: Final = 2.0


def under_a_read_view(bench: Bench) -> list[Contest]:
    """Claims after a churn of claims and acks, each in a transaction of its own, with rescans."""
    churn = 10_000 if bench.quick else 100_000
    seconds = 1.0 if bench.quick else 5.0
    backlog = Rows(4 * churn, seconds="-60 + n * 0.00001")

    def from_backlog(claimer: Claimer) -> list[float]:
        return _work(claimer, 2 * churn // BATCH_SIZE, seconds)

    def trickling(claimer: Claimer) -> list[float]:
        _work(claimer, 4 * churn // BATCH_SIZE, 600)
        return _wait(claimer, seconds)

    return [
        _under_a_view(bench, "view", backlog, churn, from_backlog),
        _under_a_view(bench, "view, trickle", Rows(churn - READY), 0, trickling),
    ]


def _under_a_view(bench: Bench, name: str, rows: Rows, churn: int, claims: Callable[[Claimer], list[float]]) -> Contest:
    def measure(*, held: bool) -> float:
        """The mean, not the median, of the claims of some seconds: what rescans cost counts too."""
        with filled(bench, [Crowd(BACKLOG, [rows])]) as aliases:
            alias = aliases[BACKLOG]
            claimer = Claimer(Message, DjangoSession(alias), QUEUE)
            with _read_view(alias) if held else nullcontext():
                _work(claimer, churn // BATCH_SIZE, 600)
                return statistics.fmean(claims(claimer))

    return Contest(
        name,
        [Contestant(title, measure=partial(measure, held=title == OLD_VIEW)) for title in (QUIET, OLD_VIEW)],
        [Target(OLD_VIEW, QUIET, at_most=VIEW_AT_MOST)],
        unit="ms",
        rounds=3,
        warm_up=False,
    )


def _work(claimer: Claimer, most: int, seconds: float) -> list[float]:
    """What the claims took, in ms, of a worker that does nothing but claim and ack, until nothing is left."""
    figures: list[float] = []
    end = time.perf_counter() + seconds
    while len(figures) < most and time.perf_counter() < end:
        figure, messages = _timed(claimer)
        if not messages:
            break
        figures.append(figure)
        ack_claims(claimer.session, {message.claim: QUEUE for message in messages})
    return figures


def _wait(claimer: Claimer, seconds: float) -> list[float]:
    """The same of a worker that keeps up: each message is there alone."""
    figures: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        Message.objects.enqueue(1, queue=QUEUE, using=claimer.session.using)
        figure, messages = _timed(claimer)
        if len(messages) != 1:
            raise AssertionError(f"claimed {len(messages)}, not the one that came in")
        figures.append(figure)
        ack_claims(claimer.session, {message.claim: QUEUE for message in messages})
    return figures


def _timed(claimer: Claimer) -> tuple[float, list[Any]]:
    began = time.perf_counter()
    messages = claimer.claim(BATCH_SIZE, lease=LEASE, max_reads=3)
    return 1000 * (time.perf_counter() - began), messages


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
