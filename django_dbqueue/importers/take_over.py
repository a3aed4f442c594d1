"""Taking rows over in steps: in each, the messages are written and their rows deleted by one commit (P23).

A row is read under its lock, so nobody else claims it meanwhile, and what has been begun since is left alone. Killed at
any statement, a step has done both or nothing, and the next run continues with what still waits. Rows that others have
locked are skipped, and tried once more at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from django.db import models
from django.utils.translation import gettext as _

from django_dbqueue.envelope import Envelope
from django_dbqueue.exceptions import DBQueueError, InvalidMessage
from django_dbqueue.importers.source import UNREADABLE, Addressed, ImportSource, NotImportable
from django_dbqueue.lifecycle.enqueue import seal_for
from django_dbqueue.models import Message
from django_dbqueue.operations.verbs import check_target
from django_dbqueue.sessions.django_session import DjangoSession, refuse_inside_atomic

STEP: Final = 500
"""Rows per transaction."""


@dataclass(slots=True)
class ImportStep:
    """What became of the rows of one step."""

    moved: Counter[str] = field(default_factory=Counter)
    """How many became messages, by queue."""
    refused: dict[Any, str] = field(default_factory=dict)
    """Rows that stay where they are: by primary key, why."""
    examples: list[tuple[str, Addressed]] = field(default_factory=list)
    """Of a dry run: rows, and what they would become."""
    locked: list[Any] = field(default_factory=list)
    """Primary keys of rows that somebody else had locked, or that don't wait any more."""


def take_over(session: DjangoSession, source: ImportSource, *, limit: int | None = None) -> Iterator[ImportStep]:
    """Take over what waits now, at most ``limit`` rows; each step that is returned is committed.

    TransactionNotAllowed inside the caller's transaction.
    """
    refuse_inside_atomic(session, "queue_import")
    moved, missed = 0, list[Any]()
    for step in _steps(partial(_take, session, source), _waiting_keys(session, source), limit):
        missed += step.locked
        moved += step.moved.total()
        step.locked = []
        yield step
    yield from _steps(partial(_take, session, source), missed, None if limit is None else limit - moved)


def preview(session: DjangoSession, source: ImportSource, *, limit: int | None = None) -> Iterator[ImportStep]:
    """Read what would be taken over, without a lock or a change."""
    yield from _steps(partial(_preview, session, source), _waiting_keys(session, source), limit)


def _steps(do: Callable[[list[Any]], ImportStep], keys: list[Any], limit: int | None) -> Iterator[ImportStep]:
    """Do it to the keys, until ``limit`` rows are taken: rows that must stay don't count."""
    at, left = 0, len(keys) if limit is None else limit
    while at < len(keys) and left:
        chunk = keys[at : at + min(STEP, left)]
        step = do(chunk)
        at, left = at + len(chunk), left - step.moved.total()
        yield step


def _waiting_keys(session: DjangoSession, source: ImportSource) -> list[Any]:
    """Return the primary keys of what waits now, in its order: one sort, not one for each step."""
    rows = source.model._base_manager.using(session.using).filter(source.waiting(session.using))
    return list(rows.order_by(*source.order).values_list("pk", flat=True))


def _rows(session: DjangoSession, source: ImportSource, keys: Sequence[Any]) -> models.QuerySet[models.Model]:
    rows = source.model._base_manager.using(session.using).filter(source.waiting(session.using), pk__in=keys)
    return rows.order_by(*source.order)


def _preview(session: DjangoSession, source: ImportSource, keys: list[Any]) -> ImportStep:
    step = ImportStep()
    for row in _rows(session, source, keys):
        if (message := _read(source, row, step)) is not None:
            step.moved[message.queue] += 1
            step.examples.append((str(row.pk), message))
    return step


def _take(session: DjangoSession, source: ImportSource, keys: list[Any]) -> ImportStep:
    return session.outermost(partial(_step, session, source, keys))


def _step(session: DjangoSession, source: ImportSource, keys: list[Any]) -> ImportStep:
    step = ImportStep()
    by_queue: dict[str, list[Envelope]] = {}
    moved: list[Any] = []
    with session.transaction():
        rows = list(_rows(session, source, keys).select_for_update(skip_locked=True))
        for row in rows:
            message = _read(source, row, step)
            if message is not None:
                by_queue.setdefault(message.queue, []).append(message.envelope)
                moved.append(row.pk)
        for queue, envelopes in by_queue.items():
            Message.objects.enqueue_many(envelopes, queue=queue, using=session.using)
            step.moved[queue] = len(envelopes)
        if moved:
            source.forget(session.using, moved)
            _delete(session, source, moved)
    found = {row.pk for row in rows}
    step.locked = [key for key in keys if key not in found]
    return step


def _read(source: ImportSource, row: models.Model, step: ImportStep) -> Addressed | None:
    """Return what a row becomes; None, with the reason noted, if it has to stay."""
    try:
        _refuse_unreadable(row)
        message = source.read(row)
        seal_for(message.envelope, message.queue)
        check_target(message.queue)
    except (NotImportable, InvalidMessage) as error:
        step.refused[row.pk] = str(error)
        return None
    return message


def _refuse_unreadable(row: models.Model) -> None:
    for each in row._meta.concrete_fields:
        if getattr(row, each.attname) is UNREADABLE:
            raise NotImportable(
                _("Its column %(column)s can't be read: it nests too deep, or has a number of too many digits.")
                % {"column": each.column}
            )


def _delete(session: DjangoSession, source: ImportSource, keys: list[Any]) -> None:
    deleted, _ = source.model._base_manager.using(session.using).filter(pk__in=keys).delete()
    if deleted != len(keys):
        raise DBQueueError(
            f"Of {len(keys)} locked rows of {source.model._meta.db_table}, {deleted} could be deleted, so nothing of "
            "this step was taken over. Does a trigger or a rule of the table keep them?"
        )
