"""What a child does from fork to exit."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from django_dbqueue.consumers import Consumer
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.detached import Detachment
from django_dbqueue.worker.runner import Runner
from django_dbqueue.worker.shutdown import StopSignals, end_within
from django_dbqueue.worker.unserved_queues import Strays
from django_dbqueue.worker.worker_options import WorkerOptions


def be_child(
    options: WorkerOptions,
    consumers: dict[str, Consumer],
    board: Board,
    stop: StopSignals,
    *,
    worker_id: int,
    index: int,
    share: int | None,
) -> NoReturn:
    """Run until told to stop, drained, at its limit or no longer usable, and end this process."""
    signal.set_wakeup_fd(-1)
    os.close(stop.fileno())
    detachment = Detachment(board)
    runner = Runner(options, consumers, board, worker_id, share, detachment)
    strays = Strays(options.database, board)
    if index == 0:  # one thread for all children
        strays.start()
    code = runner.run()
    strays.stop()
    end_within(options.grace, code)
    detachment.wait()
    sys.exit(code)
