"""A durable message queue in the database that a Django project already has.

The names below are imported on first use, so that this package can be imported without Django (Spark's
executors do) and before Django's apps are ready.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_dbqueue.consumers import Reject as Reject
    from django_dbqueue.consumers import Retry as Retry
    from django_dbqueue.consumers import consumer as consumer
    from django_dbqueue.envelope import Envelope as Envelope
    from django_dbqueue.exceptions import DBQueueError as DBQueueError
    from django_dbqueue.exceptions import DuplicateKey as DuplicateKey
    from django_dbqueue.exceptions import EventTimedOut as EventTimedOut
    from django_dbqueue.exceptions import InvalidFlow as InvalidFlow
    from django_dbqueue.exceptions import InvalidMessage as InvalidMessage
    from django_dbqueue.exceptions import InvalidSchedule as InvalidSchedule
    from django_dbqueue.exceptions import InvalidStep as InvalidStep
    from django_dbqueue.exceptions import LeaseLost as LeaseLost
    from django_dbqueue.exceptions import SchedulesNotInstalled as SchedulesNotInstalled
    from django_dbqueue.exceptions import Suspended as Suspended
    from django_dbqueue.exceptions import TransactionBroken as TransactionBroken
    from django_dbqueue.exceptions import TransactionNotAllowed as TransactionNotAllowed
    from django_dbqueue.exceptions import UndecodableMessage as UndecodableMessage
    from django_dbqueue.exceptions import UnsupportedDatabase as UnsupportedDatabase
    from django_dbqueue.models.flow_builder import aflow as aflow
    from django_dbqueue.models.flow_builder import flow as flow
    from django_dbqueue.progress.links import progress_token as progress_token
    from django_dbqueue.progress.links import progress_url as progress_url

__version__ = "0.1.0"

_HOMES = {
    "consumer": "consumers",
    "Reject": "consumers",
    "Retry": "consumers",
    "Envelope": "envelope",
    "DBQueueError": "exceptions",
    "DuplicateKey": "exceptions",
    "EventTimedOut": "exceptions",
    "InvalidFlow": "exceptions",
    "InvalidMessage": "exceptions",
    "InvalidSchedule": "exceptions",
    "InvalidStep": "exceptions",
    "LeaseLost": "exceptions",
    "SchedulesNotInstalled": "exceptions",
    "Suspended": "exceptions",
    "TransactionBroken": "exceptions",
    "TransactionNotAllowed": "exceptions",
    "UndecodableMessage": "exceptions",
    "UnsupportedDatabase": "exceptions",
    "aflow": "models.flow_builder",
    "flow": "models.flow_builder",
    "progress_token": "progress.links",
    "progress_url": "progress.links",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
