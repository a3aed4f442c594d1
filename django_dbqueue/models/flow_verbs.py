"""What the holder of a message of a flow may do: add children, and read what those before it returned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

from asgiref.sync import sync_to_async

from django_dbqueue import codecs
from django_dbqueue.codecs import Json
from django_dbqueue.databases.statement import Claim
from django_dbqueue.envelope import Envelope, is_whole
from django_dbqueue.exceptions import InvalidFlow, UndecodableMessage
from django_dbqueue.flows.flow_rows import Part, check_many, results_of, spawn
from django_dbqueue.lifecycle.flows_sql import AFTER
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.typed_values import MAX_ID


class FlowVerbs:
    """``message.spawn()`` and ``message.results()``."""

    if TYPE_CHECKING:
        pk: Any
        flow: int | None

        @property
        def claim(self) -> Claim: ...

        @property
        def headers(self) -> dict[str, Json]: ...

        @property
        def _session(self) -> DjangoSession: ...

    def spawn(self, payload: Json | Envelope, *, queue: str) -> Part:
        """Add a message to the flow of this one: who waits for this one waits for that too.

        An ``Envelope`` has options besides the payload. It joins the caller's transaction, and is there once its
        commit is: an attempt that runs again spawns again, unless a step or a transactional consumer remembers it.
        InvalidFlow outside a flow; LeaseLost if this claim no longer holds the message.
        """
        return self.spawn_many([payload], queue=queue)

    def spawn_many(self, items: Iterable[object], *, queue: str) -> Part:
        """Add messages, from payloads or ``Envelope``s, to the flow of this one, in one transaction."""
        check_many("spawn", items)
        if self.flow is None:
            raise InvalidFlow(
                f"message {self.pk} is not of a flow, so nobody waits for its children: use Message.objects.enqueue()."
            )
        return spawn(self._session, self.claim, self.flow, items, queue=queue)

    def results(self) -> list[Json]:
        """Return what the messages that this one waited for, and their children, have returned, by their ids.

        Those that returned None, or ended otherwise, have no result. UndecodableMessage if one can't be decoded.
        """
        ranges = self.headers.get(AFTER) or []
        if self.flow is None:
            return []
        if not _are_ranges(ranges):
            raise UndecodableMessage(
                f"message {self.pk}: its header {AFTER!r} must be a list of pairs of ids, and was changed to "
                f"{ranges!r:.200}."
            )
        rows = results_of(self._session, self.flow, [(first, last) for first, last in ranges])
        return [codecs.decode_typed(body, content_type, types) for _, body, content_type, types in rows]

    async def aspawn(self, payload: Json | Envelope, *, queue: str) -> Part:
        """Run ``spawn`` from async code."""
        return await sync_to_async(self.spawn)(payload, queue=queue)

    async def aspawn_many(self, items: Iterable[object], *, queue: str) -> Part:
        """Run ``spawn_many`` from async code; ``items`` is a plain iterable."""
        return await sync_to_async(self.spawn_many)(items, queue=queue)

    async def aresults(self) -> list[Json]:
        """Run ``results`` from async code."""
        return await sync_to_async(self.results)()


def _are_ranges(value: Json) -> TypeGuard[list[tuple[int, int]]]:
    return isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(is_whole(number, 1, MAX_ID) for number in pair)
        for pair in value
    )
