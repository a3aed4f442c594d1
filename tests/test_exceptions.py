"""Every public exception of the package is the same after pickle and copy, so that a process pool can return it."""

from __future__ import annotations

import copy
import pickle
import pkgutil
from collections.abc import Callable
from importlib import import_module
from inspect import isclass
from typing import Any

import pytest

import django_dbqueue
from django_dbqueue import (
    DuplicateKey,
    EventTimedOut,
    LeaseLost,
    NotCancelled,
    Retry,
    SchedulesNotInstalled,
    Suspended,
    TransactionBroken,
    exceptions,
)

MADE: dict[type[BaseException], list[BaseException]] = {
    DuplicateKey: [DuplicateKey("q", "k"), DuplicateKey("q", None, message_id=7, in_flow=True)],
    EventTimedOut: [EventTimedOut(7, "paid"), EventTimedOut(None, "paid")],
    LeaseLost: [LeaseLost(7, "ack"), LeaseLost(None, "nack"), LeaseLost(7, "step", cancelled="Cancelled: why")],
    NotCancelled: [NotCancelled(7, "it is done already")],
    Retry: [Retry(), Retry("busy", after=2.5)],
    SchedulesNotInstalled: [SchedulesNotInstalled()],
    Suspended: [Suspended(7, "sleeps")],
    TransactionBroken: [TransactionBroken(7), TransactionBroken(None, step="pay")],
}
"""Those that are not made from a text alone."""
WAYS: dict[str, Callable[[BaseException], BaseException]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "oldest pickle": lambda error: pickle.loads(pickle.dumps(error, 0)),
}


def modules() -> list[Any]:
    """All modules that can be imported here: some need a package of the extras."""
    found = []
    for each in pkgutil.walk_packages(django_dbqueue.__path__, "django_dbqueue."):
        if ".migrations" in each.name or each.name.endswith("__main__"):
            continue
        try:
            found.append(import_module(each.name))
        except ImportError:
            continue
    return found


def is_public(kind: type[BaseException]) -> bool:
    return not kind.__name__.startswith("_")


def ours() -> list[type[BaseException]]:
    found = {
        each
        for module in modules()
        for each in vars(module).values()
        if isclass(each) and issubclass(each, BaseException) and each.__module__ == module.__name__ and is_public(each)
    }
    return sorted(found, key=lambda each: (each.__module__, each.__qualname__))


def examples(kind: type[BaseException]) -> list[BaseException]:
    return MADE.get(kind) or [kind("what, why, and what to do")]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_exception_survives(way: Callable[[BaseException], BaseException]) -> None:
    kinds = ours()
    assert set(MADE) < set(kinds)
    assert {each for each in kinds if each.__module__ == exceptions.__name__} >= {DuplicateKey, exceptions.LakeDamaged}
    for kind in kinds:
        for error in examples(kind):
            error.add_note("seen by a test")
            again = way(error)
            assert type(again) is kind
            assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
            assert getattr(again, "msg", None) == getattr(error, "msg", None), "what ImportError keeps by itself"
