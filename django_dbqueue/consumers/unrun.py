"""Work that a function returned instead of doing it: a generator, a coroutine, a function that nobody called.

What contains a ``yield``, or is async behind a decorator that isn't, does nothing when it is called. Whoever takes its
return for success has lost the work.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Generator
from concurrent.futures import Future
from contextlib import _AsyncGeneratorContextManager, _GeneratorContextManager
from functools import partial
from itertools import starmap
from types import FunctionType, MethodType
from typing import Any, Final

_PLAIN: Final = frozenset((type(None), bool, int, float, str, bytes))
_LAZY: Final = (map, filter, starmap)
"""They call a function once somebody asks for the next value."""
_FUNCTIONS: Final = (FunctionType, MethodType, partial)
_ADVICE: Final = {
    "awaited": "Write it as async def, without a decorator that hides it, and let it await what it calls.",
    "ran to its end": "Remove the yield or the lazy call, or run all of it before it returns.",
    "called": "Call it before it returns; a decorator that takes arguments is written with parentheses, @decorator().",
    "waited for": "Wait for it before it returns.",
}


def refuse_unrun(name: str, returned: object) -> None:
    """Raise TypeError if what a function returned has yet to run, also in a list, tuple, set or dict."""
    if (text := unrun_text(name, returned)) is not None:
        raise TypeError(text)


def unrun_text(name: str, returned: object) -> str | None:
    """Return the sentence on what a function returned that has yet to run; None if all of it has run.

    Coroutines are closed, so that Python doesn't warn of each.
    """
    if type(returned) in _PLAIN:
        return None
    found = _unrun_in(returned)
    if found is None:
        return None
    what, verb = found
    return f"{name} returned {what} that nobody {verb}, so its work was not done. {_ADVICE[verb]}"


def _unrun_in(returned: object) -> tuple[str, str] | None:
    """Return what of a value has yet to run, and what nobody has done with it."""
    found: tuple[str, str] | None = None
    seen: set[int] = set()
    waiting: list[object] = [returned]
    while waiting:
        value = waiting.pop()
        if type(value) in _PLAIN:
            continue
        verb = "called" if value is returned and issubclass(type(value), _FUNCTIONS) else _missing(value)
        if verb is not None:
            if found is None:
                place = "" if value is returned else f"{_named(returned)} with "
                found = f"{place}{_named(value)}", verb
            _close(value)
        elif id(value) not in seen:
            seen.add(id(value))
            waiting += reversed(_parts(value))
    return found


def _missing(value: object) -> str | None:
    """Return what nobody has done with this value; None if nothing is missing.

    Only its type is asked, since asking a lazy object for its class would evaluate it.
    """
    kind: Any = type(value)
    for name in ("gi_frame", "ag_frame", "cr_frame"):
        if hasattr(kind, name) and getattr(value, name) is None:
            return None  # it has run to its end
    if issubclass(kind, asyncio.Future | Future):
        return None if value.done() else "waited for"  # type: ignore[attr-defined]
    # before awaitables, which generators of types.coroutine() are too
    if inspect.isawaitable(value) if issubclass(kind, Generator) else issubclass(kind, Awaitable):
        return "awaited"
    if issubclass(kind, Generator | AsyncGenerator) or kind in _LAZY:
        return "ran to its end"
    if issubclass(kind, _GeneratorContextManager | _AsyncGeneratorContextManager):
        return _missing(value.gen)  # type: ignore[attr-defined]
    return None


def _parts(value: object) -> list[object]:
    kind = type(value)
    if issubclass(kind, dict):
        return [*dict.keys(value), *dict.values(value)]  # type: ignore[arg-type]
    if issubclass(kind, list | tuple | set | frozenset | deque):
        return list(value)  # type: ignore[call-overload,no-any-return]
    return []


def _named(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def _close(value: object) -> None:
    if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
        value.close()
