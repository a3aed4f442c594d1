"""What a child does from fork to exit."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import Final, NoReturn

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.child_loop import ChildLoop
from django_dbqueue.worker.detached import Detachment
from django_dbqueue.worker.interruption import note_what_is_swallowed
from django_dbqueue.worker.late_signals import SIGNALS
from django_dbqueue.worker.shutdown import StopSignals, end_within
from django_dbqueue.worker.sleepers import Seat
from django_dbqueue.worker.thread_connections import note_use
from django_dbqueue.worker.unserved_queues import UnservedQueues
from django_dbqueue.worker.worker_options import WorkerOptions

COLLECTED_AFTER: Final = 10_000
"""Containers that a child makes, beyond those it freed, before the cyclic garbage collector runs."""


def be_child(
    options: WorkerOptions,
    consumers: dict[str, Consumer],
    board: Board,
    stop: StopSignals,
    *,
    seat: Seat,
    index: int,
    share: int | None,
    predecessor: Board | None,
) -> NoReturn:
    """Run until told to stop, drained, at its limit or no longer usable, and end this process."""
    for number in SIGNALS:  # the supervisor repeats what it wants; its own handlers would count, and end this process
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    os.close(stop.fileno())
    note_use()
    note_what_is_swallowed()
    _collect_less()
    detachment = Detachment(board)
    loop = ChildLoop(options, consumers, board, seat, share, detachment, predecessor)
    unserved = UnservedQueues(options.session, board, seat)
    if index == 0:  # one thread for all children
        unserved.start()
    code = loop.run()
    unserved.stop()
    end_within(options.grace, code)
    detachment.wait()
    sys.exit(code)


def _collect_less() -> None:
    """Spare the garbage collector what is no garbage: what was imported, and the messages that are held.

    Messages die by reference counts. With Python's usual threshold each claim starts several collections, which visit
    every message held and find nothing.
    """
    gc.freeze()
    youngest, *older = gc.get_threshold()
    if youngest:  # 0 means that the project has switched it off
        gc.set_threshold(max(COLLECTED_AFTER, youngest), *older)
