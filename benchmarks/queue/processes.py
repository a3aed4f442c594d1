"""Functions in fresh processes that begin together and end with their starter."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from importlib import import_module
from multiprocessing.connection import wait
from threading import BrokenBarrierError
from typing import TYPE_CHECKING, Any, Final

import django

from tests.servers.lifeline import ends_with_its_starter

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

_SPAWN: Final = multiprocessing.get_context("spawn")


class ChildFailed(Exception):
    """A process ended without a result; the text is its traceback."""


def together(count: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What `function(begin, *arguments)` returned in each of `count` processes.

    Each is to call `begin` when it is ready; the call returns when all are. The function must be one of a module, and
    the arguments picklable. Django is set up before, where the environment names its settings.
    """
    barrier = _SPAWN.Barrier(count)
    children = []
    try:
        for _ in range(count):
            here, there = _SPAWN.Pipe(duplex=False)
            process = _SPAWN.Process(
                target=_run, args=(there, barrier, function.__module__, function.__name__, arguments)
            )
            process.start()
            there.close()
            children.append((here, process))
        return _results([here for here, _ in children])
    except BaseException:
        for _, process in children:
            process.terminate()  # without effect on one that has ended
        raise
    finally:
        for _, process in children:
            process.join()


def _run(there: Connection, barrier: Any, module: str, name: str, arguments: tuple[Any, ...]) -> None:
    ends_with_its_starter(signal.SIGTERM)()
    signal.signal(
        signal.SIGTERM, lambda number, _: sys.exit(128 + number)
    )  # unwinds the stack, and what it has started
    try:
        if "DJANGO_SETTINGS_MODULE" in os.environ:
            django.setup()
        function = getattr(import_module(module), name)  # which may import models
        there.send((True, function(barrier.wait, *arguments)))
    except BrokenBarrierError:
        there.send((False, ""))  # another one has failed, and says why
    except Exception:
        there.send((False, traceback.format_exc()))
        barrier.abort()


def _results(pipes: list[Connection[Any, Any]]) -> list[Any]:
    found: dict[Any, Any] = {}
    each: Any  # `wait` also takes sockets and handles
    while len(found) < len(pipes):
        for each in wait([pipe for pipe in pipes if pipe not in found]):
            try:
                good, found[each] = each.recv()
            except EOFError:
                raise ChildFailed("a process ended without a result") from None
            if not good and found[each]:
                raise ChildFailed(found[each])
    return [found[each] for each in pipes]
