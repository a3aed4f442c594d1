"""`manage.py drain_flights`: a worker until the queues are empty, and how far each airport's flow is meanwhile."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from time import perf_counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from example_project.flights.bars import Bars, standings

PAUSE = 0.2
"""Seconds between two drawings."""
RESTS = 9
"""Times that a drawing's own time is waited before the next, since a flow is counted from its messages."""
WORKER = (sys.executable, "-m", "django", "run_queue_worker", "--processes", "2", "--drain", "--verbosity", "0")


class Command(BaseCommand):
    help = (
        "Runs a worker with two processes until the queues are empty. A terminal shows a bar for the flow of each "
        "airport's file meanwhile; anything else gets one line at the end."
    )

    def handle(self, *_: Any, **__: Any) -> None:
        console = Console()
        code = _drawn(console) if console.is_terminal and not console.is_dumb_terminal else self._told()
        if code:
            raise CommandError(f"The worker ended with exit code {code}; see its output above.")

    def _told(self) -> int:
        with subprocess.Popen(WORKER) as worker, _ended_with_us(worker):
            code = worker.wait()
        if ended := "; ".join(map(str, standings())):
            self.stdout.write(f"Messages of each airport's flow that have ended: {ended}.")
        return code


def _drawn(console: Console) -> int:
    # The worker's errors come by way of us: at a terminal it would draw its own bar over ours.
    with Bars(console) as bars, subprocess.Popen(WORKER, stderr=subprocess.PIPE, text=True) as worker:
        relay = Thread(target=_relay, args=(worker, console))
        relay.start()
        with _ended_with_us(worker):
            has_ended = False
            while not has_ended:
                has_ended = worker.poll() is not None  # asked before the last drawing, which so shows the end
                begun = perf_counter()
                bars.draw()
                if not has_ended:
                    _wait(worker, max(PAUSE, RESTS * (perf_counter() - begun)))
        relay.join()
    return worker.returncode


def _relay(worker: subprocess.Popen[str], console: Console) -> None:
    for line in worker.stderr or ():
        console.print(line.rstrip(), markup=False, highlight=False)


def _wait(worker: subprocess.Popen[str], seconds: float) -> None:
    try:
        worker.wait(seconds)
    except subprocess.TimeoutExpired:
        return


@contextmanager
def _ended_with_us(worker: subprocess.Popen[Any]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        worker.terminate()
        worker.wait()
        raise
