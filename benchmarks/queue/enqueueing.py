"""Messages into an empty queue: one by one, each with a commit of its own, and ten thousand at once."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from django.test import override_settings

from benchmarks.queue import rivals, troubles
from benchmarks.queue.bench import PADDING, QUEUE, SLOW_QUEUE, TABLE
from benchmarks.queue.floors import floor
from benchmarks.queue.processes import together
from benchmarks.queue.workers import worker
from benchmarks.race import Contest, Contestant, Target
from django_dbqueue import conf
from django_dbqueue.codecs import encode
from django_dbqueue.models import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.queue.bench import Bench

FLOOR: Final = "raw insert"
QUEUES_OWN: Final = "enqueue"
MODEL: Final = "the model's save"
_STATEMENT_ROWS: Final = 1_000


def one_by_one(bench: Bench) -> list[Contest]:
    """By one producer, and by four."""
    return [_one_by_one(bench, producers) for producers in (1, 4)]


def _one_by_one(bench: Bench, producers: int) -> Contest:
    return Contest(
        f"enqueue, {producers}",
        [
            _producing(bench, FLOOR, producers, _insert),
            _producing(bench, QUEUES_OWN, producers, _enqueue),
            _producing(bench, MODEL, producers, _save),
            *rivals.enqueueing(bench, bench.sizes.one_by_one // producers * producers, producers),
        ],
        [Target(QUEUES_OWN, FLOOR, at_least=0.6), *rivals.beats(bench, QUEUES_OWN, 1.3)],
        unit="messages/s",
    )


def noticed(bench: Bench) -> list[Contest]:
    """What NOTIFY costs four producers, where there is one, while a worker of another queue listens."""
    if bench.database != "postgres":
        return []
    contestants = [
        _producing(bench, QUEUES_OWN, 4, _enqueue, listened=True),
        _producing(bench, "enqueue, NOTIFY off", 4, _enqueue_unnoticed, listened=True),
    ]
    return [Contest("enqueue, 4, noticed", contestants, unit="messages/s")]


def _producing(
    bench: Bench, name: str, producers: int, produce: Callable[..., float], *, listened: bool = False
) -> Contestant:
    each = bench.sizes.one_by_one // producers

    def measure() -> float:
        with troubles.reported(bench, name), _listener(bench) if listened else nullcontext():
            return each * producers / max(together(producers, produce, bench.url, each))

    return Contestant(name, prepare=bench.empty, measure=measure, check=lambda: _check(bench, (each + 1) * producers))


@contextmanager
def _listener(bench: Bench) -> Iterator[None]:
    """A worker of another queue, as soon as it listens."""
    ask = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN django_dbqueue'"
    with worker(bench, "--queues", SLOW_QUEUE) as running:
        while not bench.number(ask):
            running.still_alive()
            time.sleep(0.01)
        yield


def bulk(bench: Bench) -> Contest:
    """All in one call, from a list of payloads."""
    rows = bench.sizes.bulk
    payloads = [_payload(number) for number in range(rows)]

    def contestant(name: str, run: Callable[[], Any]) -> Contestant:
        return Contestant(name, rows, run, prepare=bench.empty, check=lambda: _check(bench, rows))

    def insert_many() -> None:
        with floor(bench.url, QUEUE) as raw:
            for first in range(0, rows, _STATEMENT_ROWS):
                raw.insert_many(payloads[first : first + _STATEMENT_ROWS])

    def bulk_create() -> None:
        Message.objects.bulk_create(
            [Message(queue=QUEUE, body=_encoded(each)) for each in payloads], batch_size=_STATEMENT_ROWS
        )

    contestants = [
        contestant("raw multi-row insert", insert_many),
        contestant("enqueue_many", lambda: Message.objects.enqueue_many(payloads, queue=QUEUE)),
        contestant("the model's bulk_create", bulk_create),
        *rivals.enqueueing_in_bulk(bench, rows),
    ]
    targets = [
        Target("enqueue_many", "raw multi-row insert", at_least=0.7),
        *rivals.keeps_up(bench, "enqueue_many", "graphile_worker", "pg_boss"),
    ]
    return Contest("bulk", contestants, targets, unit="messages/s")


def _check(bench: Bench, rows: int) -> None:
    stored = bench.number(f"SELECT COUNT(*) FROM {TABLE} WHERE queue = %s AND status = 'n'", (QUEUE,))
    bench.expect(stored, rows, "what is stored")


def _payload(number: int) -> dict[str, Any]:
    return {"n": number, "padding": PADDING}


def _encoded(payload: Any) -> str:
    return encode(payload, max_bytes=conf.get("MAX_PAYLOAD_BYTES"))[0]


# What a producer does: a process of its own that is set up before it begins, and says how many seconds it took.


def _insert(begin: Callable[[], Any], url: str, rows: int) -> float:
    with floor(url, QUEUE) as raw:
        return _timed(begin, rows, raw.insert)


def _enqueue(begin: Callable[[], Any], _url: str, rows: int) -> float:
    return _timed(begin, rows, lambda payload: Message.objects.enqueue(payload, queue=QUEUE))


def _enqueue_unnoticed(begin: Callable[[], Any], url: str, rows: int) -> float:
    with override_settings(DBQUEUE={"NOTIFY": False}):
        return _enqueue(begin, url, rows)


def _save(begin: Callable[[], Any], _url: str, rows: int) -> float:
    return _timed(begin, rows, lambda payload: Message.objects.create(queue=QUEUE, body=_encoded(payload)))


def _timed(begin: Callable[[], Any], rows: int, store: Callable[[Any], Any]) -> float:
    payloads = [_payload(number) for number in range(rows)]
    store(payloads[0])  # connects, and imports what is imported at the first call
    begin()
    began = time.perf_counter()
    for each in payloads:
        store(each)
    return time.perf_counter() - began
