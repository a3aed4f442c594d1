"""A holder's verbs for async code: each runs in a thread, so that it doesn't block the event loop.

In an async consumer this is one of the few threads that the child's coroutines share, with its own connection. So none
of them joins a transaction, and hundreds of coroutines open few connections.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async


class AsyncVerbs:
    """What the holder of a message may do to it, from async code; each raises what its sync counterpart raises."""

    ack: Any
    nack: Any
    reject: Any
    release: Any
    extend: Any

    async def aack(self) -> None:
        """Run ``ack`` from async code."""
        await sync_to_async(self.ack)()

    async def anack(self, *, delay: float | timedelta | None = None, error: str | BaseException | None = None) -> None:
        """Run ``nack`` from async code."""
        await sync_to_async(self.nack)(delay=delay, error=error)

    async def areject(self, reason: str = "") -> None:
        """Run ``reject`` from async code."""
        await sync_to_async(self.reject)(reason)

    async def arelease(self) -> None:
        """Run ``release`` from async code."""
        await sync_to_async(self.release)()

    async def aextend(self, seconds: float | timedelta | None = None) -> None:
        """Run ``extend`` from async code."""
        await sync_to_async(self.extend)(seconds)
