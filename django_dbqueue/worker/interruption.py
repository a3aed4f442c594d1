"""A call of a handler in a thread, and how another thread interrupts it: its messages are cancelled.

An exception of ours is raised between two bytecodes of the thread (``PyThreadState_SetAsyncExc``), so not while it is
in a call of C. It must not reach the worker's own code behind the handler. So the call, when it ends, takes itself back
first, then waits for who has announced himself, and clears what he has left. It uses no lock for that: a thread which
the exception hits as it acquires one would never release it.

Python swallows what is raised in a ``__del__`` or in the callback of a weak reference. A hook notes that, and the call
is interrupted once more.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from django_dbqueue.exceptions import MessageCancelled
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.thread_connections import discard_all

Result = TypeVar("Result")

_MOMENT: Final = 0.001

_calls: Final[dict[int, Call]] = {}
"""What runs, by its thread."""


class Call:
    """What a thread runs now for some deliveries: one, or those of a list."""

    __slots__ = ("_is_announced", "_is_raised", "cancel", "deliveries", "is_swallowed", "thread")

    def __init__(self, deliveries: Sequence[Delivery]) -> None:
        self.deliveries = deliveries
        self.cancel: Callable[[], object] | None = None
        """Cancels the coroutine that the handler is, in an event loop of its own."""
        self._is_announced = self._is_raised = False
        self.is_swallowed = False
        """Whether Python has swallowed what was raised."""
        self.thread: int | None = threading.get_ident()

    @property
    def cancelled_at(self) -> float | None:
        """Return since when there is nothing left to do here: of a list, since the last message was cancelled."""
        moments = [each.cancelled_at for each in self.deliveries if each.cancelled_at is not None]
        return max(moments) if len(moments) == len(self.deliveries) else None

    @property
    def is_interrupted(self) -> bool:
        """Return whether somebody has interrupted it, or is about to."""
        return self._is_announced

    @property
    def _bears_it(self) -> bool:
        return all(each.options.interruptible for each in self.deliveries)

    def interrupt(self) -> None:
        """Cancel its coroutine; or raise MessageCancelled in its thread, if it hasn't ended and can bear that.

        It is called from another thread, and does so once; and once more when that was swallowed.
        """
        if self._is_announced and not self.is_swallowed:
            return
        self._is_announced, self._is_raised, self.is_swallowed = True, False, False
        try:
            if (cancel := self.cancel) is not None:
                cancel()
            elif (thread := self.thread) is not None and self._bears_it:
                _raise_in(thread, MessageCancelled)
        finally:
            self._is_raised = True

    def why_it_runs(self) -> str:
        """Say why it may still run, long after it was interrupted."""
        if self.cancel is not None:
            return "it swallows its cancellation, or has left something running in a thread"
        if not self._bears_it:
            return "its option interruptible is False, and it has not ended by itself"
        return "it swallows MessageCancelled, or is in a call that does not return"

    def end(self) -> bool:
        """Let nothing be raised here any more; return whether it was interrupted (from its own thread)."""
        self.thread = None
        while self._is_announced:
            try:
                while not self._is_raised:
                    time.sleep(_MOMENT)
                _raise_in(threading.get_ident(), None)
            except MessageCancelled:
                continue
            return True
        return False


def interruptible(deliveries: Sequence[Delivery], work: Callable[[], Result]) -> Result:
    """Do the work in this thread, which may be interrupted until it ends; then its connections may be in any state."""
    call = Call(deliveries)
    _calls[threading.get_ident()] = call
    for each in deliveries:
        each.call = call  # before the check whether it was cancelled: who cancels does the reverse
    try:
        if call.cancelled_at is not None:
            raise MessageCancelled
        return work()
    finally:
        if call.end():
            discard_all()
        for each in deliveries:
            each.call = None


def note_what_is_swallowed() -> None:
    """Let this process note where Python swallows a MessageCancelled; all else is left to the former hook."""
    former = sys.unraisablehook

    def note(unraisable: sys.UnraisableHookArgs) -> None:
        call = _calls.get(threading.get_ident())
        if call is not None and issubclass(unraisable.exc_type, MessageCancelled):
            call.is_swallowed = True
        else:
            former(unraisable)

    sys.unraisablehook = note


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Let a thread raise an exception at its next bytecode; None takes back what it hasn't raised yet."""
    import ctypes

    exception = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)
