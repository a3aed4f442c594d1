"""Claims of consuming streams whose lease has expired, as Django's side sees them: what they held is requeued.

The ledger's own code runs here too, in a session on Django's connection.
"""

from __future__ import annotations

from functools import partial
from typing import Final, TypeVar

from django.apps import apps

from django_dbqueue import conf, signals
from django_dbqueue.claims.burial import Death, listen
from django_dbqueue.lifecycle.rescue import announce_rescued
from django_dbqueue.sessions.django_session import DjangoSession, MessageType
from django_dbqueue.streams.stream_lanes import LaneRules
from django_dbqueue.streams.stream_release import LEASE_EXPIRED, ReleasedPart, free_expired

Result = TypeVar("Result")

AT_ONCE: Final = 5_000
"""Messages that one pass releases; the next pass continues."""


def listen_to_deaths() -> None:
    """Send a signal for each message that dies in a stream in this process, as for any other; twice changes nothing."""
    listen(_send)


def _send(death: Death) -> None:
    model = apps.get_model("django_dbqueue", "Message")
    signals.message_died.send(model, queue=death.queue, message_id=death.message, error=death.error)


def requeue_expired(model: MessageType, session: DjangoSession) -> int:
    """Release, charged and as a crash, what streams with ``on_expired=requeue`` let expire; return how many."""
    return free_expired(session, partial(_announce, model, session.using), limit=AT_ONCE, rules_of=_rules_of)


def _rules_of(queue: str) -> LaneRules:
    options = conf.queue_options(queue)
    return LaneRules(options.group_limit, options.on_dead == conf.HOLD)


def _announce(model: MessageType, using: str, part: ReleasedPart) -> None:
    evidence = f"the lease of claim {part.number} of stream {part.stream} has expired"
    error = LEASE_EXPIRED.format(number=part.number, stream=part.stream)
    announce_rescued(model, using, part.queue, part.rows, evidence, error)
