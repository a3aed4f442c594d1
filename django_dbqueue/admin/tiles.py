"""The tiles of the dashboard: all queues together, what needs attention first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.translation import gettext as _

from django_dbqueue.admin import display
from django_dbqueue.admin.state_words import WORDS
from django_dbqueue.models.fields import to_utc
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.counts import grouped, total_of
from django_dbqueue.states.depths import Depth, depths

TOTALLED: Final = ("stuck", "dead", "ready")


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure of all queues together."""

    kind: str
    """Its colour."""
    label: object
    figure: str
    url: str = ""


def all_depths(session: DjangoSession, names: Collection[str], *, budget: int) -> dict[str, Depth]:
    """Return how deep each queue is in the states of the tiles, up to its share of a budget of messages a state."""
    return depths(session, names, states=TOTALLED, cap=max(1, budget // max(1, len(names))))


def tiles(
    session: DjangoSession,
    deep: Mapping[str, Depth],
    now: datetime,
    *,
    urls: Mapping[str, str],
    workers: int | None,
    ended: int,
) -> Iterator[Tile]:
    """Yield the tiles; ``workers`` is None for people who may not see them, and ``urls`` has what others may open."""
    for name in TOTALLED:
        figure = total_of(each.counts[name] for each in deep.values())
        yield Tile(name if figure else "quiet", WORDS[name].label, str(figure), urls.get(name, ""))
    moments = [to_utc(each.oldest_ready, session.connection) for each in deep.values()]
    oldest = min((each for each in moments if each is not None), default=None)
    waited = display.NOTHING if oldest is None else display.span(now - oldest)
    yield Tile("quiet", _("oldest ready"), waited, urls.get("ready", ""))
    if workers is not None:
        yield Tile("quiet" if workers else "dead", _("workers that beat"), grouped(workers), urls.get("workers", ""))
    yield Tile("quiet", _("ended in the last minute"), grouped(ended), urls.get("ended", ""))
