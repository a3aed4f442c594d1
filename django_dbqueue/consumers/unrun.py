"""Work that a function returned instead of doing it: a generator, a coroutine, a function that nobody called.

What contains a ``yield``, or is async behind a decorator that isn't, does nothing when it is called. Whoever takes its
return for success has lost the work.

Any iterator may hide it, so all are refused but files and cursors, which only read, and ``count`` and ``repeat``, which
call nothing. What can be iterated over again, such as a queryset or a page of one, is data and isn't evaluated. So is a
function in a container. The attributes of objects are searched only in dataclasses.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections import ChainMap, UserDict, UserList, abc, deque
from concurrent.futures import Future
from contextlib import _AsyncGeneratorContextManager, _GeneratorContextManager, suppress
from functools import partial
from itertools import count, repeat
from types import FunctionType, MappingProxyType, MethodType
from typing import Any, Final

_PLAIN: Final = frozenset((type(None), bool, int, float, str, bytes))
_VIEWS: Final[tuple[type[Any], ...]] = (type({}.keys()), type({}.values()), type({}.items()))
_LISTS: Final[tuple[type[Any], ...]] = (list, tuple, set, frozenset, deque, *_VIEWS)
_READS: Final = ("readline", "fetchone")
"""What files have, and cursors of databases."""
_PURE: Final = (count, repeat)
_FUNCTIONS: Final = (FunctionType, MethodType, partial)
_ADVICE: Final = {
    "awaited": "Write it as async def, without a decorator that hides it, and let it await what it calls.",
    "ran to its end": "Remove the yield or the lazy call, or run all of it before it returns.",
    "called": "Call it before it returns; a decorator that takes arguments is written with parentheses, @decorator().",
    "waited for": "Wait for it before it returns.",
}


def refuse_unrun(name: str, returned: object) -> None:
    """Raise TypeError if what a function returned has yet to run, also in a container."""
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
    seen: dict[int, object] = {}  # kept, so that nothing else gets an id that is in here
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
            seen[id(value)] = value
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
    if inspect.isawaitable(value) if issubclass(kind, abc.Generator) else issubclass(kind, abc.Awaitable):
        return "awaited"
    if issubclass(kind, _GeneratorContextManager | _AsyncGeneratorContextManager):
        return _missing(value.gen)  # type: ignore[attr-defined]
    return "ran to its end" if _is_iterator(value) else None


def _is_iterator(value: Any) -> bool:
    kind = type(value)
    if issubclass(kind, abc.Generator | abc.AsyncGenerator):
        return True
    if issubclass(kind, _PURE) or any(hasattr(kind, name) for name in _READS):
        return False
    with suppress(Exception):  # a mock has every method, but doesn't iterate over itself
        return value is (iter(value) if issubclass(kind, abc.Iterator) else aiter(value))
    return False


def _parts(value: Any) -> list[object]:
    """Return what a dataclass, or a container of Python's own, has in it: others may make what is read of them."""
    kind = type(value)
    parts: list[object] = []
    if dataclasses.is_dataclass(kind):
        with suppress(Exception):  # a field that is a property may raise anything
            parts += [getattr(value, each.name, None) for each in dataclasses.fields(kind)]
    with suppress(Exception):  # a class of somebody's may have made anything of it
        if issubclass(kind, UserList | UserDict):
            parts.append(value.data)
        elif issubclass(kind, ChainMap):
            parts += value.maps
        elif issubclass(kind, dict):
            parts += [*dict.keys(value), *dict.values(value)]
        elif issubclass(kind, MappingProxyType):
            parts += [*value, *value.values()]
        elif issubclass(kind, _LISTS):
            parts += next(each for each in _LISTS if issubclass(kind, each)).__iter__(value)
    return parts


def _named(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def _close(value: object) -> None:
    if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
        value.close()
