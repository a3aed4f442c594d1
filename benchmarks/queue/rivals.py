"""The peers that can run beside the queue on one database, as contestants."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.queue.peers.peer import Peer
from benchmarks.queue.peers.roster import PEERS
from benchmarks.race import Contestant, Target
from tests.servers.private import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from benchmarks.queue.bench import Bench


def available(database: str, url: str, directory: Path, announce: Callable[[str], None]) -> list[Peer]:
    """Those that take part on this database; who can't be had is told."""
    found = []
    for name, profile in PEERS.items():
        if database in profile.databases:
            try:
                found.append(Peer(name, url, directory))
            except ServerError as error:
                announce(f"{name} is left out: {error}")
    return found


def enqueueing(bench: Bench, messages: int, producers: int) -> list[Contestant]:
    """One by one."""
    return [
        Contestant(peer.name, messages, measure=partial(peer.enqueue_one, messages, producers)) for peer in bench.peers
    ]


def enqueueing_in_bulk(bench: Bench, messages: int) -> list[Contestant]:
    """By those that have an interface for many."""
    return [
        Contestant(peer.name, messages, measure=partial(peer.enqueue_bulk, messages))
        for peer in bench.peers
        if peer.profile.bulk
    ]


def draining(bench: Bench, workers: int, *, only_tasks: bool = False) -> list[Contestant]:
    """Each of as many messages as take it some seconds: rates compare, counts needn't."""
    peers = [peer for peer in bench.peers if peer.profile.of_tasks or not only_tasks]
    return [_draining(bench, peer, workers) for peer in peers]


def _draining(bench: Bench, peer: Peer, workers: int) -> Contestant:
    messages = peer.profile.drain * (2 if workers > 1 else 1) // (10 if bench.quick else 1)

    def measure() -> float:
        drain = peer.drain(messages, workers)
        if drain.duplicates:
            bench.announce(f"{peer.name}: {drain.duplicates} messages were handled twice")
        return drain.rate

    return Contestant(peer.name, messages, measure=measure)


def beats(bench: Bench, contestant: str, at_least: float) -> Sequence[Target]:
    """The target against the best of those that are made for Django."""
    names = tuple(peer.name for peer in bench.peers if peer.profile.of_django)
    return [Target(contestant, names, at_least)] if names else []


def keeps_up(bench: Bench, contestant: str, *names: str, at_least: float = 1) -> Sequence[Target]:
    """The target not to be behind the best of these peers, or as many times ahead of it, where they take part."""
    present = tuple(peer.name for peer in bench.peers if peer.name in names)
    return [Target(contestant, present, at_least)] if present else []
