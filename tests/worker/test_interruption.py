"""A call of a handler is interrupted while it runs, and nothing of ours is after it has ended."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from django_dbqueue import MessageCancelled
from django_dbqueue.worker import interruption
from django_dbqueue.worker.interruption import Call, interruptible, note_what_is_swallowed
from django_dbqueue.worker.lent_threads import in_own_loop
from tests.patience import patience

pytestmark = [pytest.mark.once, pytest.mark.django_db]


def delivery(*, interruptible: bool = True) -> Any:
    return SimpleNamespace(options=SimpleNamespace(interruptible=interruptible), call=None, cancelled_at=None)


def spin() -> None:
    while True:
        time.sleep(0.001)


class Aside:
    """A thread that does this for these deliveries; how it ended."""

    def __init__(self, deliveries: list[Any], work: Callable[[], Any]) -> None:
        self.ended: Any = None
        self._thread = threading.Thread(target=self._run, args=(deliveries, work), daemon=True)
        self._thread.start()
        while deliveries[-1].call is None and self._thread.is_alive():
            time.sleep(0.001)

    def _run(self, deliveries: list[Any], work: Callable[[], Any]) -> None:
        try:
            self.ended = interruptible(deliveries, work)
        except BaseException as error:
            self.ended = error

    def join(self) -> Any:
        self._thread.join(patience(20))
        assert not self._thread.is_alive()
        return self.ended


def cancel(one: Any) -> None:
    one.cancelled_at = 1.0


def test_what_runs_is_interrupted_once_and_its_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    monkeypatch.setattr(interruption, "discard_all", lambda: closed.append(threading.get_ident()))
    one = delivery()
    thread = Aside([one], spin)
    call = one.call
    cancel(one)
    call.interrupt()
    call.interrupt()
    assert isinstance(thread.join(), MessageCancelled)
    assert (len(closed), one.call) == (1, None)


def test_what_python_swallows_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It swallows what is raised in a ``__del__``; the watch on cancelled messages interrupts once more then."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    note_what_is_swallowed()
    one, began = delivery(), threading.Event()

    class Ending:
        def __del__(self) -> None:
            began.set()
            spin()

    def work() -> None:
        Ending()
        spin()

    thread = Aside([one], work)
    call = one.call
    cancel(one)
    began.wait(patience(20))
    call.interrupt()
    while not call.is_swallowed:
        time.sleep(0.001)
    call.interrupt()
    assert isinstance(thread.join(), MessageCancelled)


def test_what_was_cancelled_before_it_began_does_not_begin() -> None:
    one = delivery()
    cancel(one)
    ran: list[int] = []
    with pytest.raises(MessageCancelled):
        interruptible([one], lambda: ran.append(1))
    assert ran == []


def test_what_can_not_bear_it_is_left_alone() -> None:
    one, gate = delivery(interruptible=False), threading.Event()
    thread = Aside([one], gate.wait)
    cancel(one)
    one.call.interrupt()
    assert "interruptible is False" in one.call.why_it_runs()
    gate.set()
    assert thread.join() is True


def test_a_coroutine_is_cancelled_and_nothing_raised() -> None:
    one, gate = delivery(), threading.Event()
    thread = Aside([one], gate.wait)
    one.call.cancel = gate.set
    one.call.interrupt()
    assert thread.join() is True


def test_a_coroutine_that_was_cancelled_before_its_loop_ran_does_not_begin() -> None:
    """Who interrupts finds no loop yet; and what he raises instead can't reach a thread that waits for the loop."""
    one, ran = delivery(interruptible=False), list[int]()
    one.over_at, one.options.timeout, one.timed_out = None, None, False

    async def handle() -> None:
        ran.append(1)

    def begin() -> None:
        cancel(one)
        one.call.interrupt()
        in_own_loop(one, handle)

    assert isinstance(Aside([one], begin).join(), asyncio.CancelledError)
    assert ran == []


def test_a_list_is_cancelled_when_each_of_its_messages_is() -> None:
    first, second = delivery(), delivery()
    call = Call([first, second])  # whom nobody has told yet
    cancel(first)
    assert call.cancelled_at is None
    second.cancelled_at = 3.0
    assert call.cancelled_at == 3.0


def test_an_interruption_that_comes_as_it_ends_is_waited_for_and_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever interrupts has announced himself, and is slow: he raises what the thread's end has to clear."""
    raise_in, goes_on, one = interruption._raise_in, threading.Event(), delivery()

    def slow(thread: int, kind: type[BaseException] | None) -> None:
        if kind is not None:
            goes_on.wait(patience(20))
        raise_in(thread, kind)

    monkeypatch.setattr(interruption, "_raise_in", slow)
    gate = threading.Event()
    thread = Aside([one], gate.wait)
    call = one.call
    interrupter = threading.Thread(target=call.interrupt, daemon=True)
    interrupter.start()
    while not call._is_announced:
        time.sleep(0.001)
    gate.set()
    while call.thread is not None:  # it ends now
        time.sleep(0.001)
    goes_on.set()
    assert thread.join() is True


def test_what_has_ended_is_not_interrupted() -> None:
    one = delivery()
    calls: list[Any] = []
    assert interruptible([one], lambda: calls.append(one.call) or "done") == "done"
    calls[0].interrupt()
    for _ in range(1_000):
        pass
