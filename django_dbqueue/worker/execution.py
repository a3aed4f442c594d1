"""One delivery through its handler: decode, run, decide. The decision is a frozen value; others carry it out."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
from typing import Any, Literal

from asgiref.sync import async_to_sync
from django.db import connections

from django_dbqueue.consumers import Reject, Retry
from django_dbqueue.exceptions import LeaseLost, UndecodableMessage
from django_dbqueue.lifecycle.settle import error_text
from django_dbqueue.worker.holding import Delivery


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to become of a message whose handler has ended; ``delay`` in seconds."""

    verb: Literal["ack", "nack", "reject", "nothing"]
    delay: float | None = None
    error: str = ""


ACK = Verdict("ack")
NOTHING = Verdict("nothing")


def execute(delivery: Delivery) -> Verdict:
    """Run the handler in this thread and say what follows; raises nothing, and leaves no transaction open."""
    message = delivery.message
    try:
        _ = (message.payload, message.headers)
        _call(delivery)
        return ACK
    except UndecodableMessage as error:
        return Verdict("reject", error=error_text(error) or "")
    except Reject as error:
        return Verdict("reject", error=error_text(str(error)) or "Rejected")
    except Retry as error:
        delay = backoff(delivery) if error.after is None else error.after
        return Verdict("nack", delay, error_text(f"Retry: {error}") or "")
    except LeaseLost as error:
        if error.message_id == message.pk:
            return NOTHING
        return Verdict("nack", backoff(delivery), error_text(error) or "")
    except TimeoutError as error:
        text = timed_out(delivery) if delivery.consumer.is_async and delivery.timed_out else error_text(error)
        return Verdict("nack", backoff(delivery), text or "")
    except BaseException as error:  # noqa: BLE001 - a handler's SystemExit must not end the worker's thread
        return Verdict("nack", backoff(delivery), error_text(error) or "")
    finally:
        leave_clean()


def _call(delivery: Delivery) -> None:
    handler = delivery.consumer.handler
    if not delivery.consumer.is_async:
        handler(delivery.message)
        return
    timeout = delivery.options.timeout

    async def run() -> None:
        try:
            async with asyncio.timeout(timeout) as scope:
                await handler(delivery.message)
        finally:
            delivery.timed_out = scope.expired()

    async_to_sync(run)()


def timed_out(delivery: Delivery) -> str:
    """Say that a handler ran too long."""
    return f"TimedOut: {delivery.consumer.name} ran longer than its timeout of {delivery.options.timeout:g} s"


def backoff(delivery: Delivery) -> float:
    """Return seconds until the next try: doubled with each read up to the limit, with jitter below it.

    The jitter takes up to half away ("equal jitter", M. Brooker, AWS Architecture Blog, 2015).
    """
    exponent = min(max(delivery.message.read_count - 1, 0), 60)
    full = min(delivery.options.backoff_max, delivery.options.backoff * 2.0**exponent)
    return full * random.uniform(0.5, 1.0)


def leave_clean() -> None:
    """Undo what a handler left behind on this thread's connections: an open transaction, autocommit off."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block or connection.needs_rollback or not _autocommits(connection):
            discard(connection)
        else:
            connection.close_if_unusable_or_obsolete()


def _autocommits(connection: Any) -> bool:
    return connection.connection is None or bool(connection.autocommit)


def discard(connection: Any) -> None:
    """Close a connection whatever state it is in (which rolls back), and forget its wrapper."""
    raw = connection.connection
    with contextlib.suppress(Exception):
        if raw is not None:
            raw.close()
    with contextlib.suppress(AttributeError, KeyError):
        del connections[connection.alias]
