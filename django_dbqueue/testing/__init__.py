"""For the tests of projects that use the queue: run consumers, and check what was enqueued.

They work in Django's ``TestCase``, inside its transaction, in ``TransactionTestCase``, and under pytest with the
fixture ``dbqueue``. ``docs/testing.md`` shows examples. The names below are imported on first use, since pytest reads
its plugins before Django is set up.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_dbqueue.testing.containment import LostTransaction as LostTransaction
    from django_dbqueue.testing.drained import Drained as Drained
    from django_dbqueue.testing.drained import EndlessRun as EndlessRun
    from django_dbqueue.testing.drained import Handled as Handled
    from django_dbqueue.testing.enqueued import assert_enqueued as assert_enqueued
    from django_dbqueue.testing.enqueued import refute_enqueued as refute_enqueued
    from django_dbqueue.testing.factories import MessageFactory as MessageFactory
    from django_dbqueue.testing.fixture import DBQueue as DBQueue
    from django_dbqueue.testing.run import run_consumers as run_consumers

_HOMES = {
    "run_consumers": "run",
    "Drained": "drained",
    "EndlessRun": "drained",
    "Handled": "drained",
    "assert_enqueued": "enqueued",
    "refute_enqueued": "enqueued",
    "LostTransaction": "containment",
    "DBQueue": "fixture",
    "MessageFactory": "factories",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
