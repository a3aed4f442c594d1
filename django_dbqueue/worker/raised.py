"""What a handler raised outlives its attempt, until another thread reports it; what its frames hold must not.

An iterator of a queryset keeps a SELECT open on the connection of the handler's thread: the next message there would
write from an old snapshot, and the cursor would be closed by the thread that reports.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from types import TracebackType
from typing import Final

_OF_A_COROUTINE: Final = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Flags of frames that may be suspended, and continue: up to Python 3.12, clearing one would end it."""


def forget_variables(error: BaseException) -> None:
    """Clear the variables of the frames that an error was raised through, its causes and contexts too; raise nothing.

    The frames keep their lines, so the traceback reads as before.
    """
    pending, seen = [error], set[int]()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        with suppress(Exception):  # an error's class may have made anything of its attributes
            _clear(each.__traceback__)
            pending += (other for other in (each.__cause__, each.__context__) if other is not None)
            if isinstance(each, BaseExceptionGroup):
                pending += each.exceptions


def _clear(trace: TracebackType | None) -> None:
    while trace is not None:
        if not trace.tb_frame.f_code.co_flags & _OF_A_COROUTINE:
            with suppress(RuntimeError):  # it still runs
                trace.tb_frame.clear()
        trace = trace.tb_next
