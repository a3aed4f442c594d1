"""One run of a job, and what it took."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from django.db import connections

from benchmarks.scale.counters import COUNTED, Counters
from benchmarks.scale.jobs import Job, Site
from benchmarks.scale.memory import Memory

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Account:
    """What a job read, wrote, held in memory and asked of the database."""

    job: str
    rows: int
    """Of the history."""
    new: int
    counted: dict[str, int]
    """By COUNTED."""
    held: dict[str, float]
    """Megabytes, by HELD."""
    sessions: int
    """At once, at most."""
    file_bytes: int
    """Of files that were not there before."""
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def account(job: Job, site: Site, new: int, counters: Counters, memory: Memory) -> Account:
    """Run a job once, and return what it cost."""
    if job.prepare:
        job.prepare(site, new)
    connections.close_all()  # the job has sessions of its own, that are counted
    files = _files(site.home)
    with counters.sessions():
        before = counters.read()
        with memory.watched():
            began = time.monotonic()
            worked_on = job.run(site, new)
            seconds = time.monotonic() - began
            connections.close_all()
        after = counters.read()
    written = sum(size for path, size in _files(site.home).items() if path not in files)
    if job.restore:
        job.restore(site, new)
    counted = {name: after[name] - before[name] for name in COUNTED}
    return Account(job.name, site.rows, worked_on, counted, dict(memory.held), counters.peak, written, seconds)


def _files(place: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in place.rglob("*") if path.is_file()}
