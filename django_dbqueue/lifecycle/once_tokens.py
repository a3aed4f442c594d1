"""What a sender enqueues ``once`` (P20): its token is taken in the caller's transaction, before the message is stored.

So of two open transactions with one token the second waits for the end of the first, having written nothing. It is then
told of the first one's message, or, if that was rolled back, has the token. The token stands for the message that the
sender got: the new one, or the live one that has its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django_dbqueue.keys import OnceToken, lane_of
from django_dbqueue.lifecycle import once_sql
from django_dbqueue.lifecycle.hydration import filler, hydrate, hydrator
from django_dbqueue.sessions.django_session import DjangoSession, MessageType
from django_dbqueue.statements import enqueue_sql
from django_dbqueue.statements.message_columns import ARCHIVED_COLUMNS, UNARCHIVED_COLUMNS
from django_dbqueue.statuses import DONE, NEW

UNSEEN: Final = -1
"""A message that the caller's snapshot doesn't show; never that of a token which is taken alone."""


def take(session: DjangoSession, tokens: Iterable[OnceToken]) -> dict[str, int]:
    """Take those that are new or have expired. Return the message of each of the others (or UNSEEN), by its hash.

    If a token occurs twice, the first one counts. Tokens are taken in the order of their hashes, so that two senders of
    the same ones don't wait for each other.
    """
    seconds: dict[str, float] = {}
    for token in tokens:
        seconds.setdefault(token.hash, token.seconds)
    ordered = dict(sorted(seconds.items()))
    if session.server.returns_rows:
        rows = session.fetch(once_sql.take(session.server, ordered))
    else:
        session.run(once_sql.take(session.server, ordered))
        rows = session.fetch(once_sql.read_back(session.server, [*ordered]))
    messages: dict[str, int] = dict(rows)
    return {token: message for token in ordered if (message := messages.get(token, UNSEEN)) != 0}


def name(session: DjangoSession, messages: Mapping[str, int]) -> None:
    """Say which messages came with the tokens that this transaction took."""
    session.run(once_sql.name(session.server, messages))


def first_message(model: MessageType, session: DjangoSession, message_id: int, queue: str) -> Any:
    """Return the message that came with a token, as it is now, or as its history tells; its outcome is "ignored".

    Of one that is in neither only the id and the queue are known: what else is asked for is read then, and if it isn't
    there, Django raises the model's DoesNotExist.
    """
    message = (
        _in_queue(model, session, message_id)
        or _in_history(model, session, message_id)
        or filler(model)(model, session.using, {"id": message_id, "queue": queue})
    )
    message.outcome = "ignored"
    return message


def _in_queue(model: MessageType, session: DjangoSession, message_id: int) -> Any:
    rows = session.fetch(enqueue_sql.by_id(session.server, message_id))
    return hydrate(model, session.using, rows[0]) if rows else None


def _in_history(model: MessageType, session: DjangoSession, message_id: int) -> Any:
    rows = session.fetch(once_sql.in_history(session.server, message_id))
    if not rows:
        return None
    outcome, *row = rows[0]
    columns = ("id", *ARCHIVED_COLUMNS)
    values = dict(zip(columns, row, strict=True))
    group = values["group_name"]
    rest: dict[str, Any] = dict.fromkeys(UNARCHIVED_COLUMNS)
    rest["status"] = NEW if outcome == "dead" else DONE
    rest["lane"] = None if group is None else lane_of(values["queue"], group)
    return hydrator(model, session.using, columns, **rest)(row)
