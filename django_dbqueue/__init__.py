"""A durable message queue in the database that a Django project already has.

The names below are imported on first use, so that this package can be imported without Django (Spark's
executors do) and before Django's apps are ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_dbqueue.lazy_names import names_on_first_use

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
    from django_dbqueue.exceptions import MessageCancelled as MessageCancelled
    from django_dbqueue.exceptions import NotCancelled as NotCancelled
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

__getattr__, __dir__, __all__ = names_on_first_use(
    __name__,
    {
        "consumers": ("consumer", "Reject", "Retry"),
        "envelope": ("Envelope",),
        "exceptions": (
            "DBQueueError",
            "DuplicateKey",
            "EventTimedOut",
            "InvalidFlow",
            "InvalidMessage",
            "InvalidSchedule",
            "InvalidStep",
            "LeaseLost",
            "MessageCancelled",
            "NotCancelled",
            "SchedulesNotInstalled",
            "Suspended",
            "TransactionBroken",
            "TransactionNotAllowed",
            "UndecodableMessage",
            "UnsupportedDatabase",
        ),
        "models.flow_builder": ("aflow", "flow"),
        "progress.links": ("progress_token", "progress_url"),
    },
)
