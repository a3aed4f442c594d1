"""The peers that can run beside the queue on one database, as contestants."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.queue.peers.conditions import DEFAULT, LOGGING, NONE
from benchmarks.queue.peers.peer import Peer
from benchmarks.queue.peers.roster import PEERS
from benchmarks.race import Contestant, Target
from tests.servers.private import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.queue.bench import Bench


def available(
    database: str, url: str, directory: Path, announce: Callable[[str], None]
) -> tuple[list[Peer], dict[str, str]]:
    """Those that take part on this database, and why others that would can't be had."""
    found, missing = [], {}
    for name, profile in PEERS.items():
        if database in profile.databases:
            try:
                found.append(Peer(name, url, directory))
            except ServerError as error:
                announce(f"{name} is left out: {error}")
                missing[name] = str(error).splitlines()[0]
    return found, missing


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


def draining(bench: Bench, workers: int) -> list[Contestant]:
    """Each of as many messages as take it some seconds: rates compare, counts needn't."""
    return [_draining(bench, peer, peer.name, peer.profile.drain * min(workers, 2), workers) for peer in bench.peers]


def draining_tasks(bench: Bench, conditions: Mapping[str, str] = NONE, at_most: int | None = None) -> list[Contestant]:
    """By one worker of each; backends of Django's tasks twice, without Django's logging and with it."""
    found = []
    for peer in bench.peers:
        messages = min(peer.profile.drain, at_most or peer.profile.drain)
        found.append(_draining(bench, peer, peer.name, messages, conditions=conditions))
        if peer.profile.of_tasks:
            logging = {**conditions, LOGGING: DEFAULT}
            found.append(_draining(bench, peer, logged(peer.name), messages, conditions=logging))
    return found


def logged(name: str) -> str:
    """The name of a contestant that has Django's own logging."""
    return f"{name}, logging on"


def _draining(
    bench: Bench, peer: Peer, name: str, messages: int, workers: int = 1, conditions: Mapping[str, str] = NONE
) -> Contestant:
    messages = messages // 10 if bench.quick else messages

    def measure() -> float:
        drain = peer.drain(messages, workers, conditions)
        if drain.duplicates:
            bench.announce(f"{name}: {drain.duplicates} messages were handled twice")
        return drain.rate

    return Contestant(name, messages, measure=measure)


def beats(bench: Bench, contestant: str, at_least: float) -> Sequence[Target]:
    """The target against the best of those that are made for Django."""
    names = tuple(peer.name for peer in bench.peers if peer.profile.of_django)
    return [Target(contestant, names, at_least)] if names else []


def keeps_up(bench: Bench, contestant: str, *names: str, at_least: float = 1) -> Sequence[Target]:
    """The target not to be behind the best of these peers, or as many times ahead of it, where they take part."""
    present = tuple(peer.name for peer in bench.peers if peer.name in names)
    return [Target(contestant, present, at_least)] if present else []
