"""What tasks returned, beside the hot table: written with the ack, deleted when it has been kept long enough."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Kept, Statement, holes
from django_dbqueue.statements.enqueue_sql import column_words
from django_dbqueue.statements.events_sql import RESULT_FORGOTTEN


def insert(server: Server, results: Sequence[tuple[int, Kept]]) -> Statement:
    """Keep what these messages returned, in one statement; the transaction that acks them runs it."""
    begin = f"INSERT INTO {server.result} (message_id, body, content_type, expires_at, flow, types)"
    ending = server.or_nothing(server.result, "message_id")
    if server.rows_from_json:  # a fifth of what a VALUES list costs
        until = server.plus(server.now, "said ->> 3")
        rows = json.dumps([(message_id, *kept) for message_id, kept in results], ensure_ascii=False)
        return Statement(
            f"{begin} SELECT (said ->> 0)::bigint, said ->> 1, said ->> 2, {until}, (said ->> 4)::bigint, said ->> 5 "
            f"FROM json_array_elements(%s::json) AS said{ending}",
            (rows,),
        )
    ids, kept = zip(*results, strict=True)
    bodies, kinds, seconds, flows, types = zip(*kept, strict=True)
    columns = {"content_type": kinds, "seconds": seconds, "flow": flows, "types": types}
    shared, varying = column_words(columns, defaults={})
    until = server.plus(server.now, shared["seconds"])
    row = f"(%s, %s, {shared['content_type']}, {until}, {shared.get('flow', 'NULL')}, {shared.get('types', 'NULL')})"
    params = chain.from_iterable(zip(ids, bodies, *varying, strict=True))
    return Statement(f"{begin} VALUES {', '.join([row] * len(results))}{ending}", tuple(params))


def of_flow(server: Server, flow: int, first: int, last: int) -> Statement:
    """Read the results that messages of a flow in a range of ids have left."""
    return Statement(
        f"SELECT message_id, body, content_type, types FROM {server.result} "
        "WHERE message_id BETWEEN %s AND %s AND flow = %s",
        (first, last, flow),
    )


def expired(server: Server, limit: int, *, lock: bool = True) -> Statement:
    """Lock results that were kept long enough, skipping those that others have locked; or only read them."""
    return Statement(
        f"SELECT message_id FROM {server.result} WHERE expires_at <= {server.now} "
        f"ORDER BY expires_at LIMIT %s{server.skip_locked if lock else ''}",
        (limit,),
    )


def places(server: Server, ids: Sequence[int]) -> Statement:
    """Read the ids and queues of these messages, of those that are still there or in the history."""
    named = server.id_in(ids)
    return Statement(
        f"SELECT id, queue FROM {server.message}{server.use[Index.IDS]} WHERE {named.sql} UNION ALL "
        f"SELECT message_id, queue FROM {server.archived} WHERE message_id IN ({holes(len(ids))})",
        (*named.params, *ids),
    )


def note_forgotten(server: Server, places: Sequence[tuple[int, str]]) -> Statement:
    """Record in the lives of messages, given as ids and queues, that their results are deleted."""
    row = f"(%s, %s, '{RESULT_FORGOTTEN}', {server.now})"
    return Statement(
        f"INSERT INTO {server.event} (message_id, queue, kind, at) VALUES {', '.join([row] * len(places))}",
        tuple(chain.from_iterable(places)),
    )


def delete(server: Server, ids: Sequence[int]) -> Statement:
    """Delete results that the same transaction has locked."""
    return server.delete_each(server.result, ("message_id",), [(each,) for each in ids])
