"""A plugin for pytest: pytest-timeout's alarm rings while a test runs, and never while its report is made.

The alarm is an exception, wherever the process is. In a set-up, a test or a teardown it is a failure of that test. In
pytest's own code it ends the process, with pytest-xdist the whole session, and every test that has not run is lost.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_ALARM = pytest.StashKey[tuple[float, Any]]()
"""A test's limit in seconds, 0 for none, and what the alarm calls."""
_LEFT = pytest.StashKey[float]()
"""Seconds of it that its set-up has not used."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    limit = signal.getitimer(signal.ITIMER_REAL)[0]
    item.stash[_ALARM] = limit, signal.getsignal(signal.SIGALRM)
    with _ringing_after(limit, item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _ringing_after(item.stash[_LEFT], item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """The whole limit again: what has used it up may hang in its teardown too."""
    with _ringing_after(item.stash[_ALARM][0], item):
        return (yield)


@contextmanager
def _ringing_after(seconds: float, item: pytest.Item) -> Iterator[None]:
    limit, handler = item.stash[_ALARM]
    if limit:
        signal.signal(signal.SIGALRM, handler)  # after a failure pytest-timeout has given it up
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        item.stash[_LEFT] = signal.setitimer(signal.ITIMER_REAL, 0)[0] if limit else 0
