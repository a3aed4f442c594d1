"""The seam through which instruments (tracing, error reporting) watch messages: the core knows no more of them.

``active`` is None unless an instrument is installed, and then a message costs one ``is None`` at each place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

Result = TypeVar("Result")

PROPAGATED: Final = frozenset({"traceparent", "tracestate", "baggage", "sentry-trace"})
"""Headers that say in which trace a message was sent, and not what is in it."""
FLUSHED_WITHIN: Final = 2.0
"""Seconds for which an ending process waits for its instruments."""
FAILED: Final = "an instrument failed; what it watches continues"

logger = logging.getLogger("django_dbqueue.hooks")


class Attempt(Protocol):
    """A handler's run, from its message's claim to its verdict."""

    def end(self, ended: Sequence[tuple[Any, Any]]) -> None:
        """Take note of how each delivery ended: pairs of a delivery and its verdict. In the thread that began it."""


class Instrument:
    """Something that watches. Each method here does what it is given, and watches nothing.

    ``store``, ``take`` and ``work`` must be called once, and what they return must be returned; what they raise must be
    raised. ``using`` is the alias of the queue's database. Deliveries and verdicts are the worker's own.
    """

    def send(self, envelope: Any, queue: str, using: str, store: Callable[[Any], Any]) -> Any:
        """Store an envelope, possibly with more headers; return the message."""
        return store(envelope)

    def send_many(self, items: Iterable[Any], queue: str, using: str, store: Callable[[Iterable[Any]], Any]) -> Any:
        """Store payloads and envelopes, possibly with more headers; return the report.

        What is a list must stay one: ``store`` may read it twice.
        """
        return store(items)

    def receive(self, queue: str, using: str, take: Callable[[], list[Any]]) -> list[Any]:
        """Claim messages for a caller who asked for them. Workers, which fetch ahead, don't call it."""
        return take()

    def begin(self, deliveries: Sequence[Any]) -> Attempt | None:
        """Take note of a handler's start, in its thread or task, with all that it gets."""
        return None

    def settle(self, verb: str, queue: str, using: str, subjects: Sequence[Any], work: Callable[[], Any]) -> Any:
        """Settle messages or deliveries (``subjects``); return what ``work`` returned."""
        return work()

    def acked(self, deliveries: Sequence[Any], using: str, seconds: float) -> None:
        """Take note of acks that a worker has committed together, ``seconds`` after it had sent them."""

    def log_fields(self) -> Mapping[str, object]:
        """Return what a log record written here and now should carry."""
        return {}

    def flush(self, seconds: float) -> None:
        """Send what was collected, within ``seconds``: this process is about to end without further notice."""


class _Several(Instrument):
    """Instruments one around the other, the first outermost."""

    def __init__(self, parts: Sequence[Instrument]) -> None:
        self.parts = tuple(parts)

    def send(self, envelope: Any, queue: str, using: str, store: Callable[[Any], Any]) -> Any:
        for part in reversed(self.parts):
            store = _with(part.send, queue, using, store)
        return store(envelope)

    def send_many(self, items: Iterable[Any], queue: str, using: str, store: Callable[[Iterable[Any]], Any]) -> Any:
        for part in reversed(self.parts):
            store = _with(part.send_many, queue, using, store)
        return store(items)

    def receive(self, queue: str, using: str, take: Callable[[], list[Any]]) -> list[Any]:
        for part in reversed(self.parts):
            take = _around(part.receive, queue, using, last=take)
        return take()

    def begin(self, deliveries: Sequence[Any]) -> Attempt | None:
        begun = [attempt for part in self.parts if (attempt := _safely(part.begin, deliveries)) is not None]
        return _Attempts(begun) if begun else None

    def settle(self, verb: str, queue: str, using: str, subjects: Sequence[Any], work: Callable[[], Any]) -> Any:
        for part in reversed(self.parts):
            work = _around(part.settle, verb, queue, using, subjects, last=work)
        return work()

    def acked(self, deliveries: Sequence[Any], using: str, seconds: float) -> None:
        for part in self.parts:
            _safely(part.acked, deliveries, using, seconds)

    def log_fields(self) -> Mapping[str, object]:
        return {name: value for part in reversed(self.parts) for name, value in part.log_fields().items()}

    def flush(self, seconds: float) -> None:
        for part in self.parts:
            _safely(part.flush, seconds)


class _Attempts:
    def __init__(self, parts: Sequence[Attempt]) -> None:
        self._parts = parts

    def end(self, ended: Sequence[tuple[Any, Any]]) -> None:
        for part in reversed(self._parts):
            _safely(part.end, ended)


def _with(send: Callable[..., Any], queue: str, using: str, store: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda what: send(what, queue, using, store)


def _around(method: Callable[..., Any], *arguments: Any, last: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: method(*arguments, last)


active: Instrument | None = None
_installed: list[Instrument] = []


def add(instrument: Instrument) -> None:
    """Let an instrument watch from now on."""
    _installed.append(instrument)
    _activate()


def remove(instrument: Instrument) -> None:
    """Let it watch no more."""
    _installed.remove(instrument)
    _activate()


def installed() -> tuple[Instrument, ...]:
    """Return what watches, the outermost first."""
    return tuple(_installed)


def _activate() -> None:
    global active
    active = None if not _installed else _installed[0] if len(_installed) == 1 else _Several(_installed)


def begin(deliveries: Sequence[Any]) -> Attempt | None:
    """Take note of a handler's start, if somebody watches; an instrument that fails costs no message its run."""
    return None if active is None else _safely(active.begin, deliveries)


def end(attempt: Attempt | None, ended: Sequence[tuple[Any, Any]]) -> None:
    """Take note of its end, likewise."""
    if attempt is not None:
        _safely(attempt.end, ended)


def acked(deliveries: Sequence[Any], using: str, seconds: float) -> None:
    """Take note of acks that were committed, likewise."""
    if active is not None:
        _safely(active.acked, deliveries, using, seconds)


def flush() -> None:
    """Let instruments send what they have collected before this process ends; a failure ends nothing else."""
    if active is not None:
        _safely(active.flush, FLUSHED_WITHIN)


def _safely(what: Callable[..., Result], *arguments: Any) -> Result | None:
    """Call it; what it raises is logged, and None is returned."""
    try:
        return what(*arguments)
    except Exception:
        logger.exception(FAILED)
        return None
