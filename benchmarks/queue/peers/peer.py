"""What contests ask of a peer."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.queue.peers import databases
from benchmarks.queue.peers.environments import python_of
from benchmarks.queue.peers.probe import VARIABLE, Drain, delays, drained, hits_so_far, read_hits
from benchmarks.queue.peers.processes import Child, PeerFailed
from benchmarks.queue.peers.roster import PEERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LIMIT_SECONDS = 180.0


class Peer:
    """One of `PEERS` on the server at a URL, in a database of its own that each measurement makes anew.

    Raises ServerError when the peer can't be installed, PeerFailed when it doesn't do its work.
    """

    def __init__(self, name: str, server: str) -> None:
        self.name = name
        self.profile = PEERS[name]
        self._server = server
        self._database = f"bench_peer_{name}"
        self._python = python_of(name)

    def enqueue_one(self, messages: int, producers: int = 1) -> float:
        """Messages per second, from the first producer's first to the last one's last; each sends its share."""
        with self._measurement() as run:
            children = [run.start("enqueue_one", messages // producers) for _ in range(producers)]
            return messages // producers * producers / _together(children)

    def enqueue_bulk(self, messages: int) -> float:
        """Messages per second, by the peer's documented interface for many, if its profile says that it has one."""
        with self._measurement() as run:
            return messages / _together([run.start("enqueue_bulk", messages)])

    def drain(self, messages: int, workers: int = 1) -> Drain:
        """How fast so many workers empty a queue that is full before they start, acknowledgements counted in."""
        with self._measurement() as run:
            run.to_end("preload", messages)
            databases.tidied(run.url)
            watch = run.start("watch")
            watch.heard()
            crew = [run.start("work") for _ in range(workers)]
            run.wait_for(messages, crew)
            watch.go()
            done = watch.heard()["empty"]
            return drained(read_hits(run.probe), messages, done)

    def pick_up(self, messages: int, gap: float) -> list[float]:
        """Milliseconds from sending to start, of messages that come so many seconds apart to one idle worker."""
        with self._measurement() as run:
            crew = [run.start("work")]
            sender = run.start("pace", messages, gap)
            sender.heard()
            run.wait_for(1, crew)
            time.sleep(2 * gap)
            sender.go()
            sender.heard()
            run.wait_for(1 + messages, crew)
            return delays(read_hits(run.probe))

    @contextmanager
    def idle_worker(self) -> Iterator[Child]:
        """A worker that has handled one message and finds no other."""
        with self._measurement() as run:
            run.to_end("preload", 1)
            worker = run.start("work")
            run.wait_for(1, [worker])
            yield worker

    @contextmanager
    def _measurement(self) -> Iterator[_Measurement]:
        """Tables in an empty database, and at the end no process and no database."""
        with tempfile.TemporaryDirectory(prefix="dbqueue-peer-") as home, ExitStack() as stack:
            url = databases.recreated(self._server, self._database)
            stack.callback(databases.drop, self._server, self._database)
            run = stack.enter_context(_Measurement(self.name, self._python, url, Path(home)))
            run.to_end("set_up")
            yield run


class _Measurement(ExitStack):
    """The processes of one measurement, which end with its block."""

    def __init__(self, peer: str, python: Path, url: str, home: Path) -> None:
        super().__init__()
        self.url, self.probe = url, home / "probe"
        self._home = home
        self._command = [str(python), "-m", "benchmarks.queue.peers.child", peer]
        self._environ = {"DBQUEUE_BENCH_URL": url, VARIABLE: str(self.probe)}

    def start(self, operation: str, *numbers: float) -> Child:
        command = [*self._command, operation, *map(str, numbers)]
        child = Child(command, self._environ, self._home / f"{operation}.log")
        self.callback(child.end)
        return child

    def to_end(self, operation: str, *numbers: float) -> None:
        child = self.start(operation, *numbers)
        child.heard()

    def wait_for(self, calls: int, crew: Sequence[Child]) -> None:
        end = time.monotonic() + _LIMIT_SECONDS
        while (seen := hits_so_far(self.probe)) < calls:
            if gone := [each for each in crew if not each.is_running()]:
                raise PeerFailed(gone[0].last_words())
            if time.monotonic() > end:
                raise PeerFailed(f"{seen} of {calls} messages were handled in {_LIMIT_SECONDS:.0f} s")
            time.sleep(0.01)


def _together(children: Sequence[Child]) -> float:
    """Seconds from the first one's beginning to the last one's end, all sent off when all are ready."""
    for each in children:
        each.heard()
    for each in children:
        each.go()
    answers = [each.heard() for each in children]
    return float(max(each["ended"] for each in answers) - min(each["began"] for each in answers))
