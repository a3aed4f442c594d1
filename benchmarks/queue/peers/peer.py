"""What contests ask of a peer."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.queue import probe
from benchmarks.queue.peers.conditions import NONE
from benchmarks.queue.peers.databases import own_place, tidied
from benchmarks.queue.peers.environments import environment_of, pinned
from benchmarks.queue.peers.processes import Child
from benchmarks.queue.peers.redis import Redis
from benchmarks.queue.peers.roster import PEERS
from benchmarks.queue.probe import Hit, Probe
from tests.servers.private import needed_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.queue.peers.environments import Environment

_DJANGOS_OWN: Final = "DJANGO_SETTINGS_MODULE"


@dataclass(frozen=True, slots=True)
class Drain:
    """How a full queue was emptied, acknowledgements and all."""

    rate: float
    """Messages per second, counted as `probe.rate` does."""
    duplicates: int
    """Calls of the handler beyond one for each message."""


class Peer:
    """One of `PEERS`, in an empty place of its own for each measurement.

    Raises ServerError when it or its server can't be had, ChildFailed or AssertionError when it doesn't do its work.
    """

    def __init__(self, name: str, server: str, directory: Path) -> None:
        """`server` is the URL of a database beside which its own may be, `directory` is where other data goes."""
        self.name = name
        self.profile = PEERS[name]
        self._server = server
        self._directory = directory
        if self.profile.on_redis:
            needed_program("redis-server", package=Redis.package)
        self._environment = environment_of(name, self.profile.python)

    @property
    def versions(self) -> str:
        """Its own, that of what runs it, and that of Redis if it needs one."""
        words = [pinned(self.name), self._environment.runtime]
        return ", ".join([*words, Redis.version()] if self.profile.on_redis else words)

    def enqueue_one(self, messages: int, producers: int = 1) -> float:
        """Messages per second, from when all producers are warm until the last one is done; each sends its share."""
        share = messages // producers
        with self._measurement() as run:
            seconds = _together([run.start("enqueue_one", share) for _ in range(producers)])
            run.check_stored(share * producers + producers)
            return share * producers / seconds

    def enqueue_bulk(self, messages: int) -> float:
        """Messages per second, by the peer's documented interface for many, if its profile says that it has one."""
        with self._measurement() as run:
            seconds = _together([run.start("enqueue_bulk", messages)])
            run.check_stored(messages + 1)
            return messages / seconds

    def drain(self, messages: int, workers: int = 1, conditions: Mapping[str, str] = NONE) -> Drain:
        """How fast so many workers empty a queue that is full before they start, under what `conditions.py` names."""
        with self._measurement(conditions) as run:
            run.ask("preload", messages)
            tidied(run.place)
            watch = run.start("watch")
            watch.heard()
            run.wait_for(messages, [run.start("work") for _ in range(workers)])
            watch.go()
            end = watch.heard()["empty"]
            return _drain(run.probe.hits(), messages, end)

    def pick_up(self, messages: int, gap: float) -> list[float]:
        """Milliseconds from sending to start, of messages that come so many seconds apart to one idle worker."""
        with self._measurement() as run:
            crew = [run.start("work")]
            sender = run.start("pace", messages, gap)
            sender.heard()
            run.wait_for(1, crew)
            time.sleep(gap)
            sender.go()
            sent = sender.heard()["sent"]
            run.wait_for(1 + messages, crew)
            came = {each.number: each.at for each in reversed(run.probe.hits())}
            return [1000 * (came[number] - at) for number, at in enumerate(sent, 1)]

    @contextmanager
    def idle_worker(self) -> Iterator[Child]:
        """A worker that has handled one message, and finds no other."""
        with self._measurement() as run:
            run.ask("preload", 1)
            worker = run.start("work")
            run.wait_for(1, [worker])
            yield worker

    @contextmanager
    def _measurement(self, conditions: Mapping[str, str] = NONE) -> Iterator[_Measurement]:
        """With its tables; at the end there is no process of it, and no table."""
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dbqueue-peer-")))
            place = stack.enter_context(own_place(self.profile, self.name, self._server, self._directory))
            run = stack.enter_context(_Measurement(self._environment, place, home, conditions))
            run.ask("set_up")
            yield run


class _Measurement(ExitStack):
    """The processes of one measurement, which end with its block."""

    def __init__(self, environment: Environment, place: str, home: Path, conditions: Mapping[str, str]) -> None:
        super().__init__()
        self.place = place
        self.probe = Probe(home / "probe")
        self._home = home
        self._command = environment.command
        self._environ = {name: value for name, value in os.environ.items() if name != _DJANGOS_OWN}
        self._environ |= (
            {**conditions} | environment.variables | {"DBQUEUE_BENCH_URL": place, probe.PATH: str(self.probe.path)}
        )

    def start(self, operation: str, *numbers: float) -> Child:
        command = [*self._command, operation, *map(str, numbers)]
        child = Child(command, self._environ, self._home / f"{operation}.log")
        self.callback(child.end)
        return child

    def ask(self, operation: str, *numbers: float) -> dict[str, int]:
        return self.start(operation, *numbers).heard()

    def check_stored(self, messages: int) -> None:
        found = self.ask("remaining")["remaining"]
        if found != messages:
            raise AssertionError(f"{found:,} messages are stored, not {messages:,}")

    def wait_for(self, calls: int, crew: Sequence[Child]) -> None:
        def still_alive() -> None:
            for each in crew:
                each.still_alive()

        self.probe.wait_for(calls, still_alive)


def _together(children: Sequence[Child]) -> float:
    """Seconds that the slowest needs, all sent off when all are ready."""
    for each in children:
        each.heard()
    for each in children:
        each.go()
    return max(float(each.heard()["seconds"]) for each in children)


def _drain(hits: Sequence[Hit], messages: int, end: float) -> Drain:
    """A second call for a message is no work. AssertionError where a message had none."""
    first = {each.number: each for each in reversed(hits)}
    if lost := messages - len(first):
        raise AssertionError(f"{lost:,} of {messages:,} messages were never handled")
    return Drain(probe.rate(sorted(first.values(), key=lambda each: each.at), end), len(hits) - messages)
