"""A place of its own for each measurement of a peer, empty, on the server of the contest."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from benchmarks.queue.peers.redis import Redis
from benchmarks.queue.sessions import connect, execute

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.queue.peers.roster import Profile


@contextmanager
def own_place(profile: Profile, name: str, server: str, directory: Path) -> Iterator[str]:
    """The URL of a database beside the contest's, which it is named after; or of a Redis whose data lies there."""
    if profile.on_redis:
        with Redis.running(directory) as redis:
            yield redis.url
        return
    parts = urlsplit(server)
    postgres = parts.scheme == "postgres"
    database = f"{parts.path.strip('/')}_{name}"
    with closing(connect(server)) as session:
        drop = f"DROP DATABASE IF EXISTS {database}{' WITH (FORCE)' if postgres else ''}"
        execute(session, drop)
        execute(session, f"CREATE DATABASE {database}{'' if postgres else ' CHARACTER SET utf8mb4'}")
        try:
            yield parts._replace(path=f"/{database}").geturl()
        finally:
            execute(session, drop)


def tidied(place: str) -> None:
    """What the server's own upkeep would have done by the time that so many rows had come one by one."""
    if urlsplit(place).scheme == "postgres":
        with closing(connect(place)) as session:
            execute(session, "VACUUM ANALYZE")
