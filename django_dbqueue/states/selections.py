"""The states of a message for Django: which rows have them, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.db.models import Q
from django.db.models.expressions import Combinable

from django_dbqueue.databases.server import Server
from django_dbqueue.states.table import PARKED_AT, STATES, Moment, Stage, order_of
from django_dbqueue.statuses import NEW, RUNNING

LIVE: Final = Q(status=RUNNING) | Q(status=NEW, available_at__isnull=False)
"""Those that are unclaimed or claimed."""


def q_of(name: str, now: Combinable, overdue: Sequence[int] = ()) -> Q:
    """Return the condition that a message is in a state; ``now`` is SQL, ``overdue`` as for ``range_of``."""
    state = STATES[name]
    due = {
        Moment.PAST: Q(available_at__lte=now),
        Moment.FUTURE: Q(available_at__gt=now, available_at__lt=PARKED_AT),
        Moment.FUTURE_OR_PARKED: Q(available_at__gt=now),
        Moment.PARKED: Q(available_at=PARKED_AT),
        Moment.NONE: Q(available_at__isnull=True),
        Moment.ANY: Q(),
    }[state.moment]
    if overdue and state.stage is Stage.CLAIMED:
        held = Q(available_at=PARKED_AT, claim_token__in=overdue)
        due = due | held if state.moment is Moment.PAST else due & ~held
    return due & Q(status=state.stage.status)


def ordering_of(name: str, server: Server) -> list[str]:
    """Return the order in which a state is listed within a range of the claim index."""
    sign = "-" if STATES[name].latest_first else ""
    return [f"{sign}{column}" for column in order_of(server, name).split(", ")]
