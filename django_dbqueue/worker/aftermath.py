"""After a child's death: settle what it held, each message according to its slot (promises P7 and P8).

Started: charged, and counted as a crash, unless the handler committed an ack of its own. Succeeded but not yet acked:
acked, because its handler returned; but if it returned a result, which died with the child, it runs again (P17): alone,
and uncharged the first time. Timed out: nacked as such. Not started: uncharged. If no slot was set, everything is
charged, so that no message can kill children forever by dying before its slot is set.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from typing import Final

from django.db import DatabaseError
from django.db.models import QuerySet

from django_dbqueue import signals
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.databases import Change, Claim
from django_dbqueue.databases.statement import MAX_IDS, chunks
from django_dbqueue.failures.failure_group_rows import with_failures
from django_dbqueue.lifecycle.moves import held_by
from django_dbqueue.lifecycle.settle_many import ack_claims, layers, settle_claims
from django_dbqueue.liveness.late_workers import delete_ended
from django_dbqueue.models import Message
from django_dbqueue.sessions.apart import apart
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.sessions.retry import is_refused
from django_dbqueue.statements import moves_sql
from django_dbqueue.states.spent import is_spent
from django_dbqueue.states.table import Stage
from django_dbqueue.statuses import RUNNING
from django_dbqueue.worker.board import Board, SlotState
from django_dbqueue.worker.execution import INTERRUPTED, TIMED_OUT, backoff, timed_out
from django_dbqueue.worker.finisher import was_cut_off
from django_dbqueue.worker.refusals import settle_refused

LOCKS_PATIENCE: Final = 1.0
"""Seconds in which a server usually notices that a session's process is dead."""


class StillLocked(DatabaseError):
    """The server has not noticed a death yet: the dead session still locks a message's row."""


def how_ended(exitcode: int | None) -> str:
    """Say how a process ended."""
    if exitcode is not None and exitcode < 0:
        return f"signal {-exitcode} ({signal.Signals(-exitcode).name})"
    return f"exit code {exitcode}"


def settle_after(
    session: DjangoSession,
    worker_id: int,
    consumers: dict[str, Consumer],
    board: Board,
    *,
    how: str,
    cut_off: bool = False,
    charges: bool = True,
) -> None:
    """Settle all that a dead child held.

    ``cut_off``: it was stopped, or replaced since a handler in it didn't end, so what else was running is charged, but
    counts neither as a failure nor as a crash; unless it ``charges``, it is only released. A message whose handler
    committed its ack, but whose slot was not cleared in time, is done and stays done.
    """
    server = session.server
    by_state = board.claims_by_state()
    in_slots = {claim for claims in by_state.values() for claim in claims}
    _await_the_locks_of_the_dead(session, in_slots)
    besides = [claim for claim in held_by(session, consumers, worker_id) if claim not in in_slots]
    crash = moves_sql.rescue(server, f"WorkerDied: the process that ran this message ended by {how}.")
    behind = _behind(session, by_state[SlotState.RETURNED], by_state[SlotState.SUCCEEDED])
    # first: what follows them in their groups keeps its ticket
    acked = _ack(session, [claim for claim in by_state[SlotState.SUCCEEDED] if claim not in behind])
    for claim in acked:
        signals.message_ended.send(Message, message_id=claim.id, using=session.using)
    returned = _run_again(session, None if cut_off else crash, by_state[SlotState.RETURNED])
    after_them = _settle(session, moves_sql.release(server), behind)
    if cut_off:
        moved = _cut_off(session, consumers, by_state[SlotState.STARTED], board, charges=charges)
    else:
        moved = _settle(session, crash, by_state[SlotState.STARTED])
        _announce(session, moved, f"its process ended by {how}", board)
        _announce(session, returned, f"its process ended by {how} before what it had returned was kept", board)
    moved |= _nack_timed_out(session, consumers, by_state[SlotState.TIMED_OUT], board)
    board.count("done", len(acked) + _count_done(session, list(in_slots - acked - returned - after_them - moved)))
    if in_slots or cut_off:
        _settle(session, moves_sql.release(server), besides)
    else:
        rescued = _settle(session, crash, besides)
        _announce(session, rescued, f"its process ended by {how}, before any handler had begun", board)
    delete_ended(session, worker_id)


def _cut_off(
    session: DjangoSession, consumers: dict[str, Consumer], claims: list[Claim], board: Board, *, charges: bool
) -> set[Claim]:
    if not charges:
        released = _settle(session, moves_sql.release(session.server), claims)
        board.count("given_back", len(released))
        board.count("cut_off", len(released))
        return released
    moved = _settle(session, moves_sql.cut_off(session.server, INTERRUPTED), claims)
    for row in _rows(session, moved):
        consumer = consumers.get(row.queue)
        was_cut_off(board, row, row.queue if consumer is None else consumer.name_for(row.headers_text), INTERRUPTED)
    return moved


def _await_the_locks_of_the_dead(session: DjangoSession, claims: set[Claim]) -> None:
    """Wait until the server has noticed the death, so that no settlement waits for a row that the dead one locked.

    A session that is itself waiting for something may not notice for a long time. Then StillLocked is raised and the
    supervisor tries again later: it has other children to look after, and must not wait inside a statement.
    """
    until = time.monotonic() + LOCKS_PATIENCE
    parts = [part for layer in layers(claims) for part in chunks(layer, MAX_IDS)]
    while not all(_are_unlocked(session, part) for part in parts):
        if time.monotonic() > until:
            raise StillLocked("its session still holds the lock of a message's row")
        time.sleep(LOCKS_PATIENCE / 50)


def _are_unlocked(session: DjangoSession, claims: list[Claim]) -> bool:
    server, tokens = session.server, dict(claims)
    with session.transaction():
        unlocked = {
            row[0] for row in session.fetch(moves_sql.lock(server, moves_sql.held(server, claims), skip_locked=True))
        }
        rows = session.fetch(moves_sql.states(server, list(tokens)))
    return all(row[0] in unlocked or row[1:] != (RUNNING, tokens[row[0]]) for row in rows)


def _settle(session: DjangoSession, change: Change, claims: list[Claim]) -> set[Claim]:
    """Move what is still held, and return the claims that held it."""
    return _in_parts(session, claims, lambda some: settle_claims(session, _with_failures(session, change, some), some))


def _behind(session: DjangoSession, returned: list[Claim], succeeded: list[Claim]) -> list[Claim]:
    """Return those that succeeded behind one of their group that runs again: in order, so do they (P18)."""
    if not returned or not succeeded:
        return []
    rows = _rows(session, (*returned, *succeeded))
    lanes = {id_: lane for id_, lane in rows.values_list("pk", "lane") if lane is not None}
    first: dict[int, int] = {}
    for id_ in sorted((claim.id for claim in returned if claim.id in lanes), reverse=True):
        first[lanes[id_]] = id_
    return [each for each in succeeded if each.id in lanes and each.id > first.get(lanes[each.id], each.id)]


def _run_again(session: DjangoSession, crash: Change | None, claims: list[Claim]) -> set[Claim]:
    """Give back those whose results died with the child; return the claims that held them.

    One of them may have killed it. So each is a suspect from now on, and a suspect is charged: no message can kill
    children forever by dying after its return. ``crash`` is None where nobody is to blame.
    """
    if crash is None:
        return _settle(session, moves_sql.release(session.server), claims)
    suspects = set(_rows(session, claims).filter(crashes__gt=0).values_list("pk", flat=True))
    spared = moves_sql.release(session.server, suspected=True)
    return _settle(session, spared, [claim for claim in claims if claim.id not in suspects]) | _settle(
        session, crash, [claim for claim in claims if claim.id in suspects]
    )


def _with_failures(session: DjangoSession, change: Change, claims: list[Claim]) -> Change:
    if change.event is None:
        return change
    return with_failures(session, change, set(_rows(session, claims).values_list("queue", flat=True)))


def _count_done(session: DjangoSession, claims: list[Claim]) -> int:
    """Return how many of these are done under their own token."""
    server = session.server
    rows = session.fetch(moves_sql.states(server, list({claim.id for claim in claims}))) if claims else []
    return sum(status == Stage.FINISHED.status and Claim(id_, token) in claims for id_, status, token in rows)


def _ack(session: DjangoSession, claims: list[Claim]) -> set[Claim]:
    """Ack what is still held, and return the claims that held it."""

    def ack_some(some: list[Claim]) -> Iterable[Claim]:
        queues = dict(_rows(session, some).values_list("pk", "queue"))
        return ack_claims(session, {claim: queues[claim.id] for claim in some if claim.id in queues})

    return _in_parts(session, claims, ack_some, returned=True)


def _in_parts(
    session: DjangoSession,
    claims: list[Claim],
    work: Callable[[list[Claim]], Iterable[Claim]],
    *,
    returned: bool = False,
) -> set[Claim]:
    """Do the work, which returns the claims that held; settle otherwise what the database refuses."""
    held: set[Claim] = set()
    for part in chunks(claims, MAX_IDS):
        apart(
            part,
            lambda some: held.update(work(some)),
            lambda claim, error: held.update(settle_refused(session, claim, error, returned=returned)),
        )
    return held


def _rows(session: DjangoSession, claims: Iterable[Claim]) -> QuerySet[Message]:
    return Message.objects.using(session.using).filter(pk__in=[claim.id for claim in claims])


def _nack_timed_out(
    session: DjangoSession, consumers: dict[str, Consumer], claims: list[Claim], board: Board
) -> set[Claim]:
    moved = set()
    rows = Message.objects.using(session.using).in_bulk([claim.id for claim in claims])
    for claim in claims:
        row = rows.get(claim.id)
        if row is None or row.queue not in consumers:
            continue
        consumer = consumers[row.queue]
        options = consumer.options_of(row)
        delay, text = backoff(options, row.read_count), timed_out(consumer, options, row)
        held, text = _nack(session, claim, row.queue, delay, text)
        if held:
            moved.add(claim)
            board.expect_retry(time.monotonic() + delay)
            is_dead = is_spent(row.read_count, row.max_reads)
            board.count("died" if is_dead else "failed")
            fields = {"queue": row.queue, "message_id": row.pk, "error": text, "attempt": row.read_count}
            if is_dead:
                signals.message_died.send(Message, **fields, using=session.using)
            else:
                signals.message_failed.send(Message, **fields, delay=delay)
    return moved


def _nack(session: DjangoSession, claim: Claim, queue: str, delay: float, text: str) -> tuple[bool, str]:
    """Nack what timed out; return whether it was still held, and its error, in ASCII if the database wants that."""
    try:
        change = with_failures(session, moves_sql.nack(session.server, delay, text, TIMED_OUT), [queue])
        return bool(settle_claims(session, change, [claim])), text
    except DatabaseError as error:
        if not is_refused(error):
            raise
    plain = text.encode("ascii", "backslashreplace").decode()
    return bool(_settle(session, moves_sql.nack(session.server, delay, plain, TIMED_OUT), [claim])), plain


def _announce(session: DjangoSession, claims: set[Claim], evidence: str, board: Board) -> None:
    ids_by_queue: dict[str, list[int]] = {}
    for row in _rows(session, claims):
        ids_by_queue.setdefault(row.queue, []).append(row.pk)
        if row.is_dead:
            board.count("died")
            fields = {"queue": row.queue, "message_id": row.pk, "error": row.error or "", "attempt": row.read_count}
            signals.message_died.send(Message, **fields, using=session.using)
    for queue, of_queue in ids_by_queue.items():
        signals.message_rescued.send(Message, queue=queue, message_ids=of_queue, evidence=evidence)
