"""What handlers do against the worker's own handling: errors that can't be read, and parts that they break."""

from __future__ import annotations

import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import connections

from django_dbqueue import Reject, Retry, signals
from django_dbqueue.worker import handler_threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_dbqueue.models import Message


class OwnRetry(Retry):
    def __init__(self, order: int) -> None:
        self.order = order


class OwnDelay(Retry):
    def __init__(self, after: Any) -> None:
        self.after = after


class PropertyRetry(Retry):
    @property
    def after(self) -> float:  # type: ignore[override]
        raise LookupError("no such customer")

    @after.setter
    def after(self, _value: Any) -> None: ...


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class SpeechlessExit(Exception):
    def __str__(self) -> str:
        raise SystemExit(5)


class SpeechlessReject(Reject):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class LeavingReject(Reject):
    def __str__(self) -> str:
        raise SystemExit(5)


class NoText:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class NamelessType(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in {"__name__", "__qualname__", "__module__"}:
            raise RuntimeError("no name")
        return super().__getattribute__(name)


class Nameless(Exception, metaclass=NamelessType):
    pass


class Unchained(Exception):
    @property
    def __notes__(self) -> Any:
        raise RuntimeError("no notes")


class Classless(Exception):
    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise RuntimeError("no class")


class LeavingRetry(Retry):
    @property
    def after(self) -> float:  # type: ignore[override]
        raise SystemExit(5)

    @after.setter
    def after(self, _value: Any) -> None: ...


def _circle() -> Exception:
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first
    return first


def _nested_groups() -> Exception:
    error: Exception = ValueError("innermost")
    for _ in range(3_000):
        error = ExceptionGroup("group", [error])
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "retry without super": lambda: OwnRetry(17),
    "retry after text": lambda: OwnDelay("soon"),
    "retry after NaN": lambda: OwnDelay(float("nan")),
    "retry after ages": lambda: OwnDelay(1e300),
    "retry before": lambda: OwnDelay(timedelta(seconds=-1)),
    "retry after a property that raises": PropertyRetry,
    "retry after a property that leaves": LeavingRetry,
    "error without a class": Classless,
    "reject without words": SpeechlessReject,
    "reject that leaves": LeavingReject,
    "reject of an object without words": lambda: Reject(NoText()),
    "error without words": Speechless,
    "error whose words leave": SpeechlessExit,
    "error of an object without words": lambda: ValueError(NoText()),
    "error without a name": Nameless,
    "error whose notes raise": Unchained,
    "error in a circle": _circle,
    "groups in groups": _nested_groups,
    "keyboard": KeyboardInterrupt,
    "generator": GeneratorExit,
    "text of surrogates": lambda: ValueError("\udcff\0"),
}


def _raise(_message: Message, what: dict[str, Any]) -> None:
    raise ERRORS[what["error"]]()


def _use_other_vendor(_message: Message, _what: dict[str, Any]) -> None:
    with connections["other"].cursor() as cursor:
        cursor.execute("SELECT 1")


def _break_thread(_message: Message, _what: dict[str, Any]) -> None:
    """Have the worker's own code fail in the thread that takes the next message."""

    def broken(_delivery: Any) -> Any:
        raise MemoryError

    handler_threads.execute = broken


def _break_main_thread(_message: Message, _what: dict[str, Any]) -> None:
    """Have the main thread fail once this message is done, beside a thread that keeps the process from its end."""

    def leave(**_named: Any) -> None:
        sys.exit(3)

    threading.Thread(target=threading.Event().wait, daemon=False).start()
    signals.message_done.connect(leave, weak=False)


DEEDS: dict[str, Callable[[Message, dict[str, Any]], None]] = {
    "raise": _raise,
    "use other vendor": _use_other_vendor,
    "break thread": _break_thread,
    "break main thread": _break_main_thread,
}
