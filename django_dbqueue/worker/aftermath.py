"""After a child's death: what it held goes back, each message by what its slot says (promises P7 and P8).

Started: charged, and a crash. Succeeded and not yet acked: acked, for its handler returned. Timed out: nacked as
such. Not started: uncharged. If no slot was set, everything is charged, so that no message can kill children for
ever by dying before its slot is set.
"""

from __future__ import annotations

import signal
import time

from django.db import connections

from django_dbqueue import signals
from django_dbqueue.consumers import Consumer
from django_dbqueue.databases import Change, Claim, dialect_of
from django_dbqueue.lifecycle.settle import settle_claims
from django_dbqueue.lifecycle.statements import MAX_IDS, chunks, fetch
from django_dbqueue.models import Message, Worker
from django_dbqueue.worker.board import Board, SlotState
from django_dbqueue.worker.execution import backoff, timed_out


def say_how(exitcode: int | None) -> str:
    """Say how a process ended."""
    if exitcode is not None and exitcode < 0:
        return f"signal {-exitcode} ({signal.Signals(-exitcode).name})"
    return f"exit code {exitcode}"


def settle_after(
    using: str,
    worker_id: int,
    consumers: dict[str, Consumer],
    board: Board,
    *,
    how: str,
    cut_off: bool = False,
) -> int:
    """Settle all that a dead child held; return how many messages were in a handler when it ended.

    ``cut_off``: its own supervisor ended it, so that what was running is charged, but neither failed nor crashed.
    """
    dialect = dialect_of(connections[using])
    standing = board.standing()
    started = standing[SlotState.STARTED]
    owned = [Claim(*row) for row in fetch(using, dialect.owned(tuple(consumers), worker_id))]
    in_slots = {claim.id for claims in standing.values() for claim in claims}
    besides = [claim for claim in owned if claim.id not in in_slots]
    crash = dialect.rescue(f"WorkerDied: the process that ran this message ended by {how}.")
    if cut_off:
        _settle(
            using,
            dialect.cut_off("Interrupted: the worker was stopped before the handler returned."),
            started,
        )
    else:
        _settle(using, crash, started)
        _tell(using, started, f"its process ended by {how}", board)
    _settle(using, dialect.ack(), standing[SlotState.SUCCEEDED])
    hung = standing[SlotState.TIMED_OUT]
    _nack_timed_out(using, consumers, hung, board)
    if in_slots or cut_off:
        _settle(using, dialect.release(), besides)
    else:
        _settle(using, crash, besides)
        _tell(using, besides, f"its process ended by {how}, before any handler had begun", board)
    Worker.objects.using(using).filter(pk=worker_id).delete()
    return len(started) + len(hung)


def _settle(using: str, change: Change, claims: list[Claim]) -> None:
    for part in chunks(claims, MAX_IDS):
        settle_claims(using, change, part)


def _nack_timed_out(using: str, consumers: dict[str, Consumer], claims: list[Claim], board: Board) -> None:
    dialect = dialect_of(connections[using])
    rows = Message.objects.using(using).in_bulk([claim.id for claim in claims])
    for claim in claims:
        row = rows.get(claim.id)
        if row is None or row.queue not in consumers:
            continue
        consumer = consumers[row.queue]
        options = consumer.resolved()
        delay, text = backoff(options, row.read_count), timed_out(consumer, options)
        if settle_claims(using, dialect.nack(delay, text), [claim]):
            board.expect_retry(time.monotonic() + delay)
            spent = 0 < (row.max_reads or 0) <= row.read_count
            board.count("died" if spent else "failed")
            if spent:
                signals.message_died.send(Message, queue=row.queue, message_id=row.pk, error=text)
            else:
                signals.message_failed.send(Message, queue=row.queue, message_id=row.pk, error=text, delay=delay)


def _tell(using: str, claims: list[Claim], evidence: str, board: Board) -> None:
    ids_by_queue: dict[str, list[int]] = {}
    for row in Message.objects.using(using).filter(pk__in=[claim.id for claim in claims]):
        ids_by_queue.setdefault(row.queue, []).append(row.pk)
        if row.is_dead:
            board.count("died")
            signals.message_died.send(Message, queue=row.queue, message_id=row.pk, error=row.error or "")
    for queue, ids in ids_by_queue.items():
        signals.message_rescued.send(Message, queue=queue, message_ids=ids, evidence=evidence)
